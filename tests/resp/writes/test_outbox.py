"""The outbox forms groups of what comes in one turn of the event loop, or right behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from resp.writes.items import Item
from resp.writes.outbox import Outbox
from resp.writes.outboxes import Outboxes
from slotlog.log import Log

pytestmark = pytest.mark.usefixtures("impatient")


class _Groups:
    """An outbox, whose items are reads: they need no log. What it hands over is counted."""

    def __init__(self) -> None:
        self.counts: list[int] = []
        self.outbox = Outbox(Outboxes(cast("Log", None), lambda: None), self._arrived, self._failed)

    def _arrived(self, items: Sequence[Item], _: Any) -> None:
        self.counts.append(len(items))

    def _failed(self, _items: Any, _behind: Any, error: Exception) -> None:
        raise error

    async def turn(self, count: int) -> list[int]:
        """So many items come; which groups were handed over when the loop has turned once."""
        self.outbox.items.extend(Item(b"GET", [], 0) for _ in range(count))
        self.outbox.schedule()
        await asyncio.sleep(0)
        return self.counts


async def test_a_group_waits_for_those_of_the_last_one_while_they_come() -> None:
    """One smaller than the last has another turn as long as each brings more, and none once one brings nothing."""
    groups = _Groups()

    assert [3] == await groups.turn(3)
    assert [3] == await groups.turn(1)
    assert [3] == await groups.turn(1)
    assert [3, 2] == await groups.turn(0)


async def test_a_group_as_large_as_the_last_one_waits_for_nobody() -> None:
    """At once where nobody is missing, as for a client that is alone, and as soon as all are there."""
    groups = _Groups()

    assert [1] == await groups.turn(1)
    assert [1, 1] == await groups.turn(1)
    assert [1, 1, 4] == await groups.turn(4)
    assert [1, 1, 4] == await groups.turn(3)
    assert [1, 1, 4, 5] == await groups.turn(2)


async def test_what_was_taken_away_leaves_no_wait_behind() -> None:
    """What comes behind items that were failed while they had another turn is sent."""
    groups = _Groups()
    await groups.turn(3)
    await groups.turn(2)

    assert 2 == len(groups.outbox.take())
    assert [3] == await groups.turn(0)
    assert [3, 2] == await groups.turn(2)
