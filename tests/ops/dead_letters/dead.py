"""A log of two partitions with dead letters, embedded or in Kafka, as the tests of `slotlog deadletters` use it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from ingest.dead_letters.dead_letter import DeadLetter
from ingest.dead_letters.stores import open_dead_letters
from slotlog.events import encode
from slotlog.log import Entry, Headers, open_log
from slotlog.shared.slots import partition_of, slot

PARTITIONS: Final = 2
KEYS: Final = [
    [b"k%d" % n for n in range(99) if partition_of(slot(b"k%d" % n), PARTITIONS) == partition][:4]
    for partition in range(PARTITIONS)
]
TIME_MS: Final = 1_700_000_000_000


class Place(NamedTuple):
    """A log of two partitions, and the options that name it."""

    url: str
    topic: str
    options: list[str]

    def append(self, *entries: Entry) -> None:
        """Put records into the log."""
        asyncio.run(self._append(entries))

    def store(self, *letters: DeadLetter) -> None:
        """Put letters where a worker puts them."""
        asyncio.run(self._store(letters))

    def records(self, partition: int) -> list[tuple[bytes | None, Headers]]:
        """Value and headers of every record of a partition."""
        return asyncio.run(self._records(partition))

    async def _append(self, entries: Sequence[Entry]) -> None:
        log = open_log(self.url, topic=self.topic, partitions=PARTITIONS)
        await log.start()
        await log.append(entries)
        await log.close()

    async def _store(self, letters: Sequence[DeadLetter]) -> None:
        log = open_log(self.url, topic=self.topic, partitions=PARTITIONS)
        await log.start()
        dead = open_dead_letters(log)
        await dead.start()
        await dead.store(letters)
        await dead.close()
        await log.close()

    async def _records(self, partition: int) -> list[tuple[bytes | None, Headers]]:
        log = open_log(self.url, topic=self.topic, partitions=PARTITIONS)
        await log.start()
        reader = log.reader({partition: 0})
        found: list[tuple[bytes | None, Headers]] = []
        while reader.position(partition) < await log.end_offset(partition):
            fetched = (await reader.fetch(500, 1000)).get(partition, [])
            found += [(record[3], reader.headers(partition, record[0])) for record in fetched]
        await reader.close()
        await log.close()
        return found


def place_at(url: str, topic: str, tmp_path: Path) -> Place:
    """The log there, with one record in each partition; states go to `tmp_path`."""
    data = str(tmp_path / "data")
    made = Place(url, topic, ["--log", url, "--topic", topic, "--partitions", str(PARTITIONS), "--data", data])
    made.append(*[entry(partition, "TICK") for partition in range(PARTITIONS)])
    return made


def entry(partition: int, cmd: str, *args: Any, **fields: Any) -> Entry:
    """A record."""
    return Entry(partition, None, encode(cmd, args, **fields))


def letter(place: Place, partition: int, offset: int, value: bytes | None, **fields: Any) -> DeadLetter:
    """A letter of this log."""
    made = DeadLetter(place.topic, partition, offset, TIME_MS + offset, "not known", b"\x00\x07", value)
    return made._replace(**fields)


def entry_time(place: Place, partition: int, offset: int) -> int:
    """The time that the log gave a record."""

    async def ask() -> int:
        log = open_log(place.url, topic=place.topic, partitions=PARTITIONS)
        await log.start()
        reader = log.reader({partition: offset})
        fetched = await reader.fetch(500, 1)
        await reader.close()
        await log.close()
        return fetched[partition][0][1]

    return asyncio.run(ask())
