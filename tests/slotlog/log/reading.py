"""Short ways to fill and read a log."""

from __future__ import annotations

from time import monotonic

from slotlog.log import Entry, Log, LogRecord, Reader, RecordPosition

_PATIENCE_SECONDS = 60


async def append(log: Log, *values: bytes, partition: int = 0) -> list[tuple[int, int]]:
    """Append one record for each value; (partition, offset) of each."""
    return places(await log.append([Entry(partition, b"\x00\x07", value) for value in values]))


def places(positions: list[RecordPosition]) -> list[tuple[int, int]]:
    """(partition, offset) of each position."""
    return [(position.partition, position.offset) for position in positions]


async def read(reader: Reader, count: int, *, records_max: int = 1000) -> dict[int, list[LogRecord]]:
    """Fetch until `count` records have come, by partition."""
    read: dict[int, list[LogRecord]] = {}
    until = monotonic() + _PATIENCE_SECONDS
    while sum(map(len, read.values())) < count:
        assert monotonic() < until, f"{count} records expected, these came: {read}"
        for partition, records in (await reader.fetch(200, records_max)).items():
            read.setdefault(partition, []).extend(records)
    return read


async def read_values(log: Log, count: int, *, partition: int = 0, offset: int = 0) -> list[bytes | None]:
    """The values of `count` records from `offset` on."""
    reader = log.reader({partition: offset})
    try:
        return [record[3] for record in (await read(reader, count))[partition]]
    finally:
        await reader.close()


async def last_record(log: Log, partition: int = 0) -> LogRecord:
    """The newest record."""
    reader = log.reader({partition: await log.end_offset(partition) - 1})
    try:
        return (await read(reader, 1))[partition][-1]
    finally:
        await reader.close()
