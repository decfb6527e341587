"""The outboxes of several partitions send what they have by one append, and clients get its replies at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest
from greenlet import GreenletExit

from resp.writes import company
from resp.writes.items import Item
from resp.writes.outbox import Outbox
from resp.writes.outboxes import Outboxes
from slotlog.errors import LogUnavailableError
from slotlog.log import Entry, Log, RecordPosition

pytestmark = pytest.mark.usefixtures("impatient")


class _Log:
    """Gives offsets, at once or not, or fails; `appends` are the partitions of each append's entries."""

    def __init__(self) -> None:
        self.appends: list[list[int]] = []
        self.at_once = True
        self.failure: Exception | None = None

    def append_at_once(self, entries: Sequence[Entry]) -> list[RecordPosition] | None:
        if self.failure is not None:
            raise self.failure
        return self._appended(entries) if self.at_once else None

    async def append(self, entries: Sequence[Entry]) -> list[RecordPosition]:
        return self._appended(entries)

    def _appended(self, entries: Sequence[Entry]) -> list[RecordPosition]:
        self.appends.append([entry.partition for entry in entries])
        return [RecordPosition(entry.partition, int(entry.value), 0) for entry in entries]


class _Partitions:
    """Outboxes of three partitions, and in `told` what they were told of."""

    def __init__(self) -> None:
        self.log = _Log()
        self.told: list[Any] = []
        self.outboxes = Outboxes(cast("Log", self.log), lambda: self.told.append("replies"))
        self.all = [Outbox(self.outboxes, self._arrived, self._failed) for _ in range(3)]

    def put(self, partition: int, *values: int) -> None:
        """Writes come whose offsets will be these."""
        outbox = self.all[partition]
        outbox.items.extend(Item(b"SET", [], 0, Entry(partition, b"", b"%d" % value)) for value in values)
        outbox.schedule()

    def _arrived(self, items: list[Item], positions: list[RecordPosition]) -> None:
        self.told.append((len(items), [(position.partition, position.offset) for position in positions]))
        self.outboxes.delivered()

    def _failed(self, items: list[Item], behind: list[Item], error: Exception) -> None:
        self.told.append((len(items), len(behind), str(error)))


async def test_one_append_for_all_partitions() -> None:
    """Each gets its own positions, with the reads between its writes, and replies are sent when all have theirs."""
    partitions = _Partitions()
    partitions.put(2, 7)
    partitions.all[2].items.append(Item(b"GET", [], 0))
    partitions.put(2, 8)
    partitions.put(0, 5)
    partitions.all[1].items.append(Item(b"GET", [], 0))
    partitions.all[1].schedule()

    await asyncio.sleep(0)
    assert [[2, 2, 0]] == partitions.log.appends
    assert [(3, [(2, 7), (2, 8)]), (1, [(0, 5)]), (1, []), "replies"] == partitions.told


async def test_a_log_that_takes_its_time_gets_an_append_of_each() -> None:
    """Partitions of Kafka do not wait for each other, and each one's replies leave when they are there."""
    partitions = _Partitions()
    partitions.log.at_once = False
    partitions.put(1, 3)
    partitions.put(0, 4)

    await asyncio.sleep(0)
    assert partitions.all[0].is_appending
    await asyncio.gather(*(outbox.settled() for outbox in partitions.all))
    assert [[1], [0]] == partitions.log.appends
    assert [(1, [(1, 3)]), "replies", (1, [(0, 4)]), "replies"] == partitions.told


async def test_an_append_that_fails_has_failed_for_all() -> None:
    """Each partition hears of it; a later append is another one."""
    partitions = _Partitions()
    partitions.log.failure = LogUnavailableError("no disk")
    partitions.put(0, 1, 2)
    partitions.put(1, 3)

    await asyncio.sleep(0)
    assert [(2, 0, "no disk"), (1, 0, "no disk")] == partitions.told
    partitions.log.failure = None
    partitions.put(1, 9)
    await asyncio.sleep(0)
    await asyncio.sleep(0)  # fewer than the last time: they had another turn
    assert [(1, [(1, 9)]), "replies"] == partitions.told[2:]


async def test_who_is_missing_is_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Items of all partitions count, and all leave together as soon as nobody is missing."""
    monkeypatch.setattr(company, "PATIENCE_SECONDS", 60.0)
    monkeypatch.setattr(company, "WAIT_SECONDS_MAX", 60.0)
    partitions = _Partitions()
    partitions.put(0, 1, 2)
    partitions.put(1, 3)
    await asyncio.sleep(0)
    assert [[0, 0, 1]] == partitions.log.appends

    partitions.put(0, 4)
    for _ in range(10):
        await asyncio.sleep(0)
    partitions.put(2, 5)
    for _ in range(10):
        await asyncio.sleep(0)
    assert [[0, 0, 1]] == partitions.log.appends
    partitions.put(1, 6)
    await asyncio.sleep(0)
    assert 1 == len(partitions.log.appends[1:])
    assert [0, 1, 2] == sorted(partitions.log.appends[1])


async def test_who_finds_no_room_in_an_append_is_in_the_next_one() -> None:
    """A thousand items at most are one append; those of the other partitions are first in the next."""
    partitions = _Partitions()
    partitions.put(0, *range(700))
    partitions.put(1, *range(600))
    partitions.put(2, *range(500))

    await asyncio.sleep(0)
    assert [[0] * 700 + [1] * 300] == partitions.log.appends
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert [2] * 500 + [1] * 300 == partitions.log.appends[1]


async def test_one_partition_in_trouble_keeps_no_other() -> None:
    """If one fails to take what is durable, the others get theirs, and the clients' replies are sent."""
    partitions = _Partitions()

    def fail(*_: object) -> None:
        raise ValueError("a bug")

    partitions.all[0] = Outbox(partitions.outboxes, fail, partitions._failed)
    partitions.put(0, 1)
    partitions.put(1, 2)

    await asyncio.sleep(0)
    assert [(1, [(1, 2)]), "replies"] == partitions.told


async def test_replies_are_sent_again_behind_one_that_ends_in_the_middle() -> None:
    """A fiber that is ended while a group is handed over holds up no replies that come later."""
    partitions = _Partitions()

    def end(*_: object) -> None:
        raise GreenletExit

    outbox = Outbox(partitions.outboxes, end, partitions._failed)
    with pytest.raises(GreenletExit):
        partitions.outboxes._hand_over([(outbox, [])], [])
    partitions.outboxes.delivered()

    assert ["replies"] == partitions.told


async def test_what_is_suspended_waits_alone() -> None:
    """While a partition applies what it has, its writes gather, and those of others are appended."""
    partitions = _Partitions()
    partitions.all[0].gathers = True
    partitions.put(0, 1)
    partitions.put(1, 2)

    await asyncio.sleep(0)
    assert [[1]] == partitions.log.appends
    partitions.all[0].go_on()
    await asyncio.sleep(0)
    assert [[1], [0]] == partitions.log.appends
