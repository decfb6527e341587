"""Decides how long a group of writes waits for more of them.

Clients that wait for their replies send the next write at about the same time, one after the other. Those who were
first to read a reply would make a group by themselves, and the rest would wait for two groups. Measured with 50 clients
that send one SET at a time: without patience 40 of 50 were in a group, and a fifth of the writes took twice as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from time import perf_counter
from typing import Final

from resp.writes.items import Item

PATIENCE_SECONDS: Final = 0.0001
"""How long after the last arrival; an append takes three times as long. Load generators pause for up to half of it."""

WAIT_SECONDS_MAX: Final = 0.0004
"""How long in all, where one comes after the other: clients who wait for their replies are there in half of it."""

_SMALL_MAX: Final = 256
"""Items of a group that waits. A larger one has a small part of its cost in common, and clients go on meanwhile."""

_VAIN_MAX: Final = 6  # of waits in vain that are counted: 2 to its power is the most groups that do not wait
_SENDER: Final = attrgetter("session")


class Company:
    """Expects in a group those who had a part in one of the last two.

    While some are missing, a group has another turn of the event loop after each that brought more, which costs
    nothing. Else it waits for `PATIENCE_SECONDS` after each, and `WAIT_SECONDS_MAX` in all. Where that is in vain time
    and again, as clients do something else between their writes, the next groups do not wait: 2 of them, then 4, and up
    to 64.
    """

    __slots__ = ("_arrived_at", "_began_at", "_expected", "_has_waited", "_rests", "_seen", "_senders", "_vain")

    def __init__(self) -> None:
        self._senders: set[int] = set()  # who had a part in the last group, by their ids: they may be gone by now
        self._expected = 0  # items of the next one
        self._seen = 0  # those that were there in the last turn
        self._began_at = self._arrived_at = 0.0
        self._has_waited = False
        self._vain = 0  # waits in vain since the last one that was not
        self._rests = 0  # groups that will not wait

    def is_awaited(self, count: int) -> bool:
        """Whether a group of `count` items has another turn of the event loop."""
        if count >= self._expected:
            return False
        if count > self._seen:
            self._arrived_at = perf_counter()
            if not self._seen:
                self._began_at = self._arrived_at
            self._seen = count
            return True
        if self._rests or self._expected > _SMALL_MAX:
            return False
        self._has_waited = True
        now = perf_counter()
        return now - self._arrived_at < PATIENCE_SECONDS and now - self._began_at < WAIT_SECONDS_MAX

    def sent(self, items: Sequence[Item]) -> None:
        """This group is on its way to the log."""
        if self._rests:
            self._rests -= 1
        elif self._has_waited and len(items) >= self._expected:
            self._vain = 0
        elif self._has_waited:
            self._rests = 1 << self._vain if self._vain else 0
            self._vain = min(self._vain + 1, _VAIN_MAX)
        self._seen, self._has_waited = 0, False
        self._expected = len(items)
        if len(items) <= _SMALL_MAX:
            senders = set(map(id, map(_SENDER, items)))
            missing = len(self._senders - senders)
            self._senders = senders
            self._expected += missing * len(items) // len(senders)
