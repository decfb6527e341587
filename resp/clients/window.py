"""Limits how far a client's commands may run ahead of its replies.

Nobody knows how large a reply is before it is there. So of the commands whose replies may be large, as many are under
way at once as bring about `AHEAD_BYTES` when their replies are like the last ones; the first time that is only a few.
"""

from __future__ import annotations

from typing import Final

PENDING_REPLIES_MAX: Final = 20_000
AHEAD_BYTES: Final = 32 * 1024 * 1024
"""What the replies of one client to commands under way may come to."""

ITEMS_MAX: Final = 1000
"""So many writes, of `DATA_BYTES_MAX` together, are taken at once where there is room for all: within a millisecond."""

DATA_BYTES_MAX: Final = 64 * 1024

HELD_BYTES_MAX: Final = 256 * 1024 * 1024
"""When they turn out larger all the same, and the client does not read: so much is held for it before it is cut off."""

_FIRST_COMMANDS: Final = 16
MEAN_BYTES_MAX: Final = AHEAD_BYTES // PENDING_REPLIES_MAX  # replies of this mean may be as many as any


class Window:
    """One client's.

    Attributes:
        commands: how many may be under way.
    """

    __slots__ = ("_mean_bytes", "commands")

    def __init__(self) -> None:
        self.commands = _FIRST_COMMANDS
        self._mean_bytes = AHEAD_BYTES // _FIRST_COMMANDS

    def learn(self, size: int, count: int) -> None:
        """So many replies had so many bytes. The window closes at once and opens by doubling."""
        mean = size // count
        if mean <= MEAN_BYTES_MAX and self.commands >= PENDING_REPLIES_MAX:
            return
        self._mean_bytes = max(mean, self._mean_bytes // 2)
        self.commands = min(PENDING_REPLIES_MAX, AHEAD_BYTES // max(self._mean_bytes, 1)) or 1
