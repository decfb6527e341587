"""Events of earlier versions of the schema are read as events of the newest, and unknown versions are refused."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import msgpack
import pytest

from ingest.applying.batches.decoding import decode_batch
from slotlog import events
from slotlog.events import decode, encode
from slotlog.shared.errors import EventError


def packed(**fields: Any) -> bytes:
    """A bare event with some fields changed."""
    value: bytes = msgpack.packb({"v": 1, "cmd": "SET", "args": ["k", "v"], **fields})
    return value


def plain(value: bytes) -> events.Event:
    """The event of a value at offset 7 and time 1000."""
    return decode(7, 1000, value)


def from_0(fields: events.Fields) -> events.Fields:
    """An upcaster: version 0 had the whole command in one array, `c`."""
    if fields.keys() != {b"v", b"c"} or fields[b"c"].__class__ is not list:
        raise EventError("an event of version 0 has a command in c, and nothing else")
    return {b"cmd": fields[b"c"][0], b"args": fields[b"c"][1:]}


def from_1(fields: events.Fields) -> events.Fields:
    """An upcaster: version 2 wants a database in every event."""
    return {b"db": 3, **fields}


def test_an_earlier_version_is_read() -> None:
    """With its upcaster it is an event like those of the newest version, on the way through C too."""
    value = msgpack.packb({"v": 0, "c": ["set", "k", 5]})
    expected = (7, 1000, b"SET", [b"k", b"5"], 0, None, None)
    with patch.dict(events.UPCASTERS, {0: from_0}):
        assert (expected, plain(encode("SET", ["k", 5]))) == (plain(value), expected)
        assert [expected] == decode_batch([(7, 1000, None, value)])
    assert b"" == plain(value)[2]


def test_versions_one_after_the_other() -> None:
    """Each upcaster leads to the next version, up to the newest one."""
    with patch.multiple(events, VERSION=2, NAMES_BY_HEAD={}), patch.dict(events.UPCASTERS, {0: from_0, 1: from_1}):
        zero = plain(msgpack.packb({"v": 0, "c": ["GET", "k"]}))
        one = plain(packed(v=1))
        two = plain(packed(v=2))

    assert (7, 1000, b"GET", [b"k"], 3, None, None) == zero
    assert (7, 1000, b"SET", [b"k", b"v"], 3, None, None) == one
    assert (7, 1000, b"SET", [b"k", b"v"], 0, None, None) == two


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (packed(v=2), "v is not 1, the one version that is known"),
        (packed(v=-1), "v is not 1, the one version that is known"),
        (packed(v=False), "v is not 1, the one version that is known"),
        (packed(v=0.0), "v is not 1, the one version that is known"),
        (packed(v=[0]), "v is not 1, the one version that is known"),
        (packed(v=0), "an event of version 0 has a command in c, and nothing else"),
        (msgpack.packb({"v": 0, "c": [["GET", "k"]]}), "cmd is not a string of at least 1 byte"),
        (msgpack.packb({"v": 0, "c": ["GET", None]}), "an argument is nil"),
        (b"\x83\xa1v\x00\xa1c\x91\xa4TICK\xa1v\x00", "a field is given twice"),
    ],
)
def test_unknown_and_malformed_versions_are_refused(value: bytes, reason: str) -> None:
    """A version that nobody knows is a dead letter as before, and so is what is no event of an earlier one."""
    with patch.dict(events.UPCASTERS, {0: from_0}):
        assert (7, 1000, b"", [reason.encode()], 0, None, None) == plain(value)
