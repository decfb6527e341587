"""Values read part by part, as those of a file are, which may be larger than one command can bring."""

from __future__ import annotations

import pytest

from engine.model import HASH, LIST, SET, STRING, ZSET
from engine.values.rdb.content import Content
from engine.values.rdb.encode import encode
from engine.values.rdb.parts import parts
from engine.values.rdb.reader import PayloadReader

FAR_MS = 4_102_444_800_000
WORDS = [b"w%d" % number for number in range(1000)]

VALUES = {
    "string": Content(STRING, [b"x" * 5000]),
    "list": Content(LIST, WORDS),
    "set": Content(SET, WORDS),
    "hash": Content(HASH, WORDS),
    "hash with times": Content(HASH, WORDS, expires_ms=[*[0] * 499, FAR_MS]),
    "sorted set": Content(ZSET, WORDS, [float(number) for number in range(1000)]),
}


@pytest.mark.parametrize("name", VALUES)
def test_the_parts_together_are_the_value(name: str) -> None:
    """Every element once and in order, none of the parts large; times where a part has fields with one."""
    value = VALUES[name]
    payload = encode(value)
    found = list(parts(payload[0], 80, PayloadReader(payload[1:-10])))

    assert value.texts == [text for part in found for text in part.texts]
    assert list(value.scores) == [score for part in found for score in part.scores]
    assert [FAR_MS] * any(value.expires_ms) == [ms for part in found for ms in part.expires_ms if ms]
    assert max(len(part.texts) for part in found) <= 128
