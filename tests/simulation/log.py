"""The log and the dead-letter store: what is in them is durable; reaching them may fail."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import Final
from zlib import crc32

from ingest.dead_letters.dead_letter import DeadLetter
from slotlog.errors import AppendUncertainError, LogMismatchError, LogUnavailableError
from slotlog.log.appends import Appends
from slotlog.log.identity import RecordMark, check_range, check_record, mark_of
from slotlog.log.log import Entry, Headers, LogRecord, RecordPosition
from tests.simulation.world import INJECTED, World

TOPIC: Final = "simulation"


class LogData:
    """The records of all partitions, whoever reads them. `now_ms` is the time that an append gets that brings none."""

    def __init__(self, partitions: int, now_ms: Callable[[], int]) -> None:
        self.now_ms = now_ms
        self.records: list[list[LogRecord]] = [[] for _ in range(partitions)]
        self.ends = [0] * partitions

    def append(self, partition: int, time_ms: int, key: bytes | None, value: bytes | None) -> int:
        """Add a record; returns its offset."""
        offset = self.ends[partition]
        self.records[partition].append((offset, time_ms, key, value))
        self.ends[partition] = offset + 1
        return offset

    def skip(self, partition: int, offsets: int) -> None:
        """Leave offsets without a record, as the end of a transaction does."""
        self.ends[partition] += offsets

    def read(self, partition: int, offset: int, records_max: int) -> list[LogRecord]:
        """The next records from `offset` on."""
        records = self.records[partition]
        first = bisect_left(records, offset, key=lambda record: record[0])
        return records[first : first + records_max]


class SimulatedLog:
    """The log as one process sees it."""

    url = "simulation://"
    topic = TOPIC

    def __init__(self, world: World, data: LogData) -> None:
        self.partitions = len(data.ends)
        self._world = world
        self._life = world.life
        self._data = data
        self.append_counts = Appends()
        self.concerns: tuple[str, ...] = ()

    async def start(self) -> None:
        """Nothing to open."""

    async def close(self) -> None:
        """Nothing to let go of."""

    def send(self, partition: int, time_ms: int, key: bytes | None, value: bytes | None) -> int:
        """Append one record, foreign ones without a value too; returns its offset.

        Raises:
            AppendUncertainError: it was appended, or not.
        """
        world = self._world
        if world.roll("append lost", world.rates.append / 2):
            raise AppendUncertainError(f"{INJECTED}: the append may have happened")
        offset = self._data.append(partition, time_ms, key, value)
        if world.roll("append unsure", world.rates.append / 2):
            raise AppendUncertainError(f"{INJECTED}: the append may have happened")
        return offset

    async def append(self, entries: Sequence[Entry]) -> list[RecordPosition]:
        """One after the other, so that an error leaves the rest out."""
        now_ms = self._data.now_ms()
        return [RecordPosition(e.partition, self.send(e.partition, now_ms, e.key, e.value), now_ms) for e in entries]

    def append_at_once(self, entries: Sequence[Entry]) -> None:
        """Never."""

    def reader(self, positions: Mapping[int, int]) -> SimulatedReader:
        """A reader from `positions` on."""
        return SimulatedReader(self, self._world, self._life, self._data, dict(positions))

    async def begin_offset(self, partition: int) -> int:
        """Nothing is ever trimmed."""
        return 0

    async def high_watermark(self, partition: int) -> int:
        """The end: there are no transactions."""
        return await self.end_offset(partition)

    async def end_offset(self, partition: int) -> int:
        """The offset after the last one."""
        self.reach()
        return self._data.ends[partition]

    async def offset_at(self, partition: int, time_ms: int) -> int | None:
        """The first record at that time or later."""
        return next((record[0] for record in self._data.records[partition] if record[1] >= time_ms), None)

    def fingerprint(self, partition: int, last: LogRecord) -> bytes:
        """As the real logs make theirs."""
        return mark_of(last, crc32).pack()

    async def check(self, partition: int, next_offset: int, fingerprint: bytes | None) -> None:
        """As the real logs do it. That it does not fit is a failure of the simulated system: this log never changes."""
        self.reach()
        name = f"partition {partition}"
        try:
            check_range(name, next_offset, 0, self._data.ends[partition])
            if fingerprint is not None:
                mark = RecordMark.parse(fingerprint)
                found = [record for record in self._data.read(partition, mark.offset, 1) if record[0] == mark.offset]
                check_record(name, mark, mark_of(found[0], crc32) if found else None)
        except LogMismatchError as error:
            self._world.fail(str(error))
            raise

    @property
    def scrubbed(self) -> None:
        """Nobody has to."""

    async def ends(self, partitions: Sequence[int], *, written: bool = False) -> dict[int, int]:
        """As `end_offset` has them."""
        return {partition: await self.end_offset(partition) for partition in partitions}

    async def set_time_back(self, partition: int, to_ms: int, entries: Sequence[Entry]) -> list[RecordPosition]:
        """Times come with the entries."""
        return await self.append(entries)

    @property
    def stored_bytes(self) -> int | None:
        """Nobody knows."""
        return None

    async def measure(self) -> None:
        """Nothing to find out."""

    async def commit(self, positions: Mapping[int, int]) -> None:
        """For lag tools; nobody reads it."""

    async def claims(self, owner: str, partitions: Sequence[int]) -> None:
        """Nobody asks who owns what."""

    def reach(self) -> None:
        """A request to the log.

        Raises:
            LogUnavailableError: it is away.
        """
        self._world.alive(self._life)
        if self._world.roll("log away", self._world.rates.log):
            raise LogUnavailableError(f"{INJECTED}: the log is away")


class SimulatedReader:
    """Gives any number of the next records, of any of its partitions."""

    def __init__(self, log: SimulatedLog, world: World, life: int, data: LogData, positions: dict[int, int]) -> None:
        self._log = log
        self._world = world
        self._life = life
        self._data = data
        self._positions = positions
        self._paused: dict[int, bool] = {}

    async def fetch(self, wait_ms: int, records_max: int) -> dict[int, list[LogRecord]]:
        """The next records; the positions may also move over offsets without any."""
        self._log.reach()
        random = self._world.random
        fetched: dict[int, list[LogRecord]] = {}
        moved = False
        for partition, position in self._positions.items():
            if self._paused.get(partition):
                continue
            wanted = records_max if self._world.calm else random.choice((0, 1, 2, 5, 30, records_max))
            records = self._data.read(partition, position, wanted)
            if records:
                fetched[partition] = records
                self._positions[partition] = records[-1][0] + 1
            elif not self._data.read(partition, position, 1) and random.randrange(2):
                self._positions[partition] = self._data.ends[partition]
            moved |= self._positions[partition] != position
        # Even a fetch that finds something takes a moment, else nobody else would get on.
        await asyncio.sleep(0.001 if moved else wait_ms / 1000)
        self._world.alive(self._life)
        return fetched

    def position(self, partition: int) -> int:
        """Where the partition is read on."""
        return self._positions[partition]

    def headers(self, partition: int, offset: int) -> Headers:
        """No record has any."""
        return ()

    def seek(self, partition: int, offset: int) -> None:
        """Read on from `offset`."""
        self._positions[partition] = offset

    def pass_by(self, partition: int, offset: int) -> None:
        """Read on from `offset`, if that lies ahead."""
        self._positions[partition] = max(offset, self._positions[partition])

    def pause(self, partition: int) -> None:
        """Give nothing of it."""
        self._paused[partition] = True

    def resume(self, partition: int) -> None:
        """Give it again."""
        self._paused[partition] = False

    async def close(self) -> None:
        """Nothing to let go of."""


class SimulatedDeadLetters:
    """The dead-letter store as one process sees it. `kept` is whose it is: (partition, offset) -> the letter."""

    concerns = ()

    def __init__(self, world: World, kept: dict[tuple[int, int], DeadLetter]) -> None:
        self._world = world
        self._life = world.life
        self._kept = kept

    async def start(self) -> None:
        """Nothing to open."""

    async def store(self, letters: Sequence[DeadLetter]) -> None:
        """All of them; or none or some, with an error."""
        world = self._world
        world.alive(self._life)
        count = (
            world.random.randrange(len(letters) + 1)
            if world.roll("letters away", world.rates.letters)
            else len(letters)
        )
        for letter in letters[:count]:
            position = letter.partition, letter.offset
            if self._kept.setdefault(position, letter) != letter:
                world.fail(f"two dead letters of {position}: {letter} and {self._kept[position]}")
        world.alive(self._life)
        if count < len(letters):
            raise LogUnavailableError(f"{INJECTED}: the dead-letter store is away")

    async def read(self, letters_max: int = 1000) -> list[DeadLetter]:
        """By position."""
        return [letter for _, letter in sorted(self._kept.items())][:letters_max]

    async def offsets(self, partition: int) -> set[int]:
        """Of those that are kept."""
        return {offset for of, offset in self._kept if of == partition}

    async def watch(self, seconds: float) -> None:
        """It has no settings."""

    async def close(self) -> None:
        """Nothing to let go of."""
