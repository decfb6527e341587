"""The bytes of the embedded log's checksums, which files keep."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import pytest
from msgpack import packb

from slotlog.log import LogRecord
from slotlog.log.embedded.file.chain import link_behind, root, seals_of

RECORDS: list[LogRecord] = [
    (0, 1000, None, b"ab"),
    (1, -1, None, b""),
    (2, (1 << 63) - 1, b"\0\7", b"v" * 300),
    ((1 << 48) - 1, 0, b"k" * 70_000, b"v" * 70_000),
]


def test_example() -> None:
    """The example in the docstring of `slotlog.log.embedded.file.chain`."""
    assert ("9400cd03e8c0c4026162", "cd728e07", ["00000000cd728e07"]) == (
        packb(RECORDS[0]).hex(),
        link_behind(bytes(4), RECORDS[:1]).hex(),
        [seal.hex() for seal in seals_of(bytes(4), RECORDS[:1])],
    )


def test_links() -> None:
    """A seal has the link before and its own, which is the CRC-32 of all bodies up to it, begun with the root."""
    before = root(b"\1" * 16, 3)
    links = [before]
    for end in range(1, len(RECORDS) + 1):
        body = b"".join(packb(record) for record in RECORDS[:end])
        links.append(crc32(body, int.from_bytes(before, "big")).to_bytes(4, "big"))

    assert [*map(bytes.__add__, links, links[1:])] == seals_of(before, RECORDS)
    assert links[1:] == [link_behind(before, RECORDS[:end]) for end in range(1, len(RECORDS) + 1)]
    assert links[-1] == link_behind(links[2], RECORDS[2:])


@pytest.mark.parametrize("number", range(len(RECORDS)))
def test_every_field_counts(number: int) -> None:
    """Another offset, time, key, value or order gives another link, as does a byte that goes from one to the other."""
    offset, time_ms, key, value = RECORDS[number]
    others: list[LogRecord] = [
        (offset ^ 1, time_ms, key, value),
        (offset, time_ms ^ 1, key, value),
        (offset, time_ms, b"" if key is None else None, value),
        (offset, time_ms, (key or b"") + b"x", value),
        (offset, time_ms, key, (value or b"") + b"x"),
        (offset, time_ms, value, key),
        (time_ms, offset, key, value),
    ]
    links = {link_behind(bytes(4), [*RECORDS[:number], record, *RECORDS[number + 1 :]]) for record in others}

    assert link_behind(bytes(4), RECORDS) not in links
    assert len(others) == len(links)
    assert link_behind(bytes(4), RECORDS[::-1]) != link_behind(bytes(4), RECORDS)


def test_vectors_are_there() -> None:
    """Each older format has a log to be upgraded in the tests."""
    vectors = Path(__file__).parents[4] / "vectors"
    assert ["log-format-1.sql", "log-format-2.sql"] == sorted(file.name for file in vectors.glob("log-format-*.sql"))
