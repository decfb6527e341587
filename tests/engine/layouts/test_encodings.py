"""OBJECT ENCODING answers by content and thresholds alone, so the same on every layout."""

from __future__ import annotations

import pytest

from engine.apply.machine import Machine
from engine.batch.keys.object_encoding import DEFAULT_KNOBS
from engine.layouts import LAYOUTS
from engine.layouts.records import column_families
from engine.store.memory import MemoryStore
from engine.tables.system import Home
from tests.engine.harness import NOW_MS

KNOBS = {**DEFAULT_KNOBS, "hash-max-listpack-entries": 128}
"""The thresholds of the document that lists the encodings; servers of today have 512 fields of a hash by default."""

LONGEST = b"x" * 64
ENCODINGS: dict[bytes, list[list[bytes]]] = {
    b"int": [[b"SET", b"k", b"-9223372036854775808"], [b"SET", b"k", b"9223372036854775807"]],
    b"embstr": [[b"SET", b"k", b"x" * 44], [b"SET", b"k", b"9223372036854775808"], [b"SET", b"k", b"01"]],
    b"raw": [[b"SET", b"k", b"x" * 45], [b"SETRANGE", b"k", b"200000", b"x"]],
    b"listpack": [
        [b"HSET", b"k", *(b"%d" % (n // 2) for n in range(2 * 128))],
        [b"HSET", b"k", LONGEST, LONGEST],
        [b"RPUSH", b"k", *[b"x" * 100] * 79],
        [b"SADD", b"k", b"a", *(b"%d" % n for n in range(127))],
        [b"SADD", b"k", LONGEST],
        [b"ZADD", b"k", *(b"%d" % (n // 2) for n in range(2 * 128))],
        [b"ZADD", b"k", b"1", LONGEST],
    ],
    b"intset": [[b"SADD", b"k", *(b"%d" % n for n in range(512))]],
    b"hashtable": [
        [b"HSET", b"k", *(b"%d" % (n // 2) for n in range(2 * 129))],
        [b"HSET", b"k", b"f", LONGEST + b"x"],
        [b"SADD", b"k", *(b"%d" % n for n in range(513))],
        [b"SADD", b"k", b"a", *(b"%d" % n for n in range(128))],
        [b"SADD", b"k", LONGEST + b"x"],
    ],
    b"quicklist": [[b"RPUSH", b"k", *[b"x" * 100] * 81], [b"RPUSH", b"k", b"x" * 9000]],
    b"skiplist": [
        [b"ZADD", b"k", *(b"%d" % (n // 2) for n in range(2 * 129))],
        [b"ZADD", b"k", *(b"%d" % (n // 2) for n in range(2 * 600))],
        [b"ZADD", b"k", b"1", LONGEST + b"x"],
    ],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_encodings_are_those_of_the_document(layout: str) -> None:
    """On both sides of each threshold, whether the content is in memory or read from the store."""
    found: dict[bytes, list[bytes]] = {}
    for encoding, commands in ENCODINGS.items():
        for name, *args in commands:
            store = MemoryStore(column_families(LAYOUTS[layout]))
            home = Home("topic", 0, 1, layout)
            machine = Machine(store, home)
            machine.apply([(0, NOW_MS, name, args, 0, None, None)], 0)
            machine.commit(b"mark")
            for each in (machine, Machine(store, home)):
                each.use_knobs(KNOBS)
                found.setdefault(encoding, []).append(each.read(b"OBJECT|ENCODING", [b"k"]))

    assert {encoding: [encoding] * 2 * len(commands) for encoding, commands in ENCODINGS.items()} == found
