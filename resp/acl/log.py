"""`ACL LOG`: the latest refusals, newest first, with repetitions counted in one entry."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import Final, Literal

from engine.values.replies import Map

ENTRIES_MAX: Final = 128
_KEPT_BYTES: Final = 1024
_GROUPING_MS: Final = 60_000
_GROUPING_ENTRIES: Final = 10
"""Only so many of the newest entries are looked through for one to count a repetition in."""

Reason = Literal["auth", "command", "key", "channel", "database"]
Context = Literal["toplevel", "multi", "lua"]


@dataclass(slots=True)
class Refusal:
    """One refusal, or several that are alike."""

    reason: Reason
    context: Context
    denied: bytes
    user_name: bytes
    client_info: bytes
    entry_id: int
    created_ms: int
    updated_ms: int
    count: int = 1

    def details(self, now_ms: int) -> Map:
        """As `ACL LOG` shows it."""
        return Map(
            [
                (b"count", self.count),
                (b"reason", self.reason.encode()),
                (b"context", self.context.encode()),
                (b"object", self.denied),
                (b"username", self.user_name),
                (b"age-seconds", max(0, now_ms - self.updated_ms) / 1000),
                (b"client-info", self.client_info),
                (b"entry-id", self.entry_id),
                (b"timestamp-created", self.created_ms),
                (b"timestamp-last-updated", self.updated_ms),
            ]
        )


class AclLog:
    """The newest refusals. `entries_max` is the setting `acllog-max-len`; 0 keeps none.

    A change of it takes away nothing: what is too much goes when the next one comes, as in Redis.
    """

    def __init__(self, entries_max: int = ENTRIES_MAX) -> None:
        self._entries: deque[Refusal] = deque()
        self.entries_max = entries_max
        self._next_id = 0

    def add(
        self,
        reason: Reason,
        context: Context,
        denied: bytes,
        user_name: bytes,
        client_info: bytes,
        now_ms: int,
        count: int = 1,
    ) -> None:
        """Note a refusal, or so many alike: in a new entry, or in one of the same kind that is less than a minute old.

        Of a long key or name only the beginning is kept, so that nobody fills the memory with what is refused.
        """
        denied, user_name = denied[:_KEPT_BYTES], user_name[:_KEPT_BYTES]
        same = (reason, context, denied, user_name)
        for entry in islice(self._entries, _GROUPING_ENTRIES):
            if (entry.reason, entry.context, entry.denied, entry.user_name) == same:
                if now_ms - entry.updated_ms > _GROUPING_MS:
                    continue
                entry.count += count
                entry.client_info, entry.updated_ms = client_info, now_ms
                self._entries.remove(entry)
                self._entries.appendleft(entry)
                return
        self._entries.appendleft(
            Refusal(reason, context, denied, user_name, client_info, self._next_id, now_ms, now_ms, count)
        )
        self._next_id += 1
        self._trim()

    def newest(self, count: int, now_ms: int) -> list[Map]:
        """The reply of `ACL LOG count`."""
        return [entry.details(now_ms) for entry in islice(self._entries, max(0, count))]

    def reset(self) -> None:
        """Forget all entries."""
        self._entries.clear()

    def _trim(self) -> None:
        while len(self._entries) > self.entries_max:
            self._entries.pop()
