"""The event codec: what it accepts, what it refuses and why, and that nothing at all can break it."""

from __future__ import annotations

import struct
import tracemalloc
from typing import Any
from unittest.mock import patch

import msgpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.apply.machine import Record
from slotlog import events
from slotlog.events import decode, encode
from slotlog.shared.doubles import format_double
from slotlog.shared.errors import EventError
from slotlog.shared.limits import ARGUMENTS_MAX, RECORD_BYTES_MAX

MIB = 1024 * 1024
BARE: dict[str, Any] = {"v": 1, "cmd": "SET", "args": ["k", "v"]}


def plain(value: bytes) -> Record:
    """The record of `value` at offset 7 and time 1000."""
    return decode(7, 1000, value)


def reason(value: bytes | None) -> str:
    """Why `value` is refused."""
    offset, time_ms, name, args, db, event_id, session = decode(7, 1000, value)
    assert (offset, time_ms, name, db, event_id, session) == (7, 1000, b"", 0, None, None)
    assert len(args) == 1
    text: str = args[0].decode()
    return text


def packed(**fields: Any) -> bytes:
    """A bare event with some fields changed."""
    value: bytes = msgpack.packb({**BARE, **fields})
    return value


# ------------------------------------------------------------------ what is accepted


def test_example() -> None:
    """The bytes that the module's docstring shows are the event that it says."""
    value = bytes.fromhex("83 a1 76 01 a3 63 6d 64 a3 53 45 54 a4 61 72 67 73 92 a1 6b 05")

    assert value == encode("SET", ["k", 5])
    assert (7, 1000, b"SET", [b"k", b"5"], 0, None, None) == plain(value)


def test_all_fields() -> None:
    """Every field comes out where it belongs; meta is carried in the bytes alone."""
    value = encode("set", ["k", "v"], id="i-1", db=15, session=b"s" * 16, meta={"who": "me", "n": [1, None, True]})

    assert (7, 1000, b"SET", [b"k", b"v"], 15, b"i-1", b"s" * 16) == plain(value)
    assert {"who": "me", "n": [1, None, True]} == msgpack.unpackb(value)["meta"]


@pytest.mark.parametrize("optional", [{"id": "x"}, {"db": 0}, {"db": 3}, {"session": b"s" * 16}, {"meta": {}}])
def test_each_optional_field_alone(optional: dict[str, Any]) -> None:
    """An event may have any one of the optional fields."""
    _, _, name, _, db, event_id, session = plain(packed(**optional))

    assert (b"SET", optional.get("db", 0)) == (name, db)
    assert (optional.get("id"), optional.get("session")) == (event_id and event_id.decode(), session)


@given(st.lists(st.binary(max_size=300) | st.text(max_size=50), max_size=50))
def test_strings_are_bytes(args: list[bytes | str]) -> None:
    """Bin and str arguments come out as the same bytes, in small and large events."""
    expected = [arg if isinstance(arg, bytes) else arg.encode() for arg in args]

    assert (7, 1000, b"DEL", expected, 0, None, None) == plain(encode(b"del", args))


@given(st.integers(-(2**63), 2**64 - 1))
@example(0)
@example(-(2**63))
@example(2**64 - 1)
def test_integers(number: int) -> None:
    """An int argument becomes its decimal digits, over the whole range of msgpack."""
    assert [b"k", str(number).encode()] == plain(packed(args=["k", number]))[3]


@given(st.floats(allow_nan=False))
@example(3.0)
@example(-0.0)
@example(float("inf"))
def test_floats(number: float) -> None:
    """A float argument becomes what Redis would print."""
    assert [b"k", format_double(number)] == plain(packed(args=["k", number]))[3]


def test_float_32() -> None:
    """Single precision is exact as a double."""
    value: bytes = msgpack.packb({**BARE, "args": [1.5, "k"]}, use_single_float=True)

    assert [b"1.5", b"k"] == plain(value)[3]


def test_exec() -> None:
    """A transaction is a list of commands, each a list of name and arguments; names stay as they are."""
    value = encode("exec", [["INCR", "n"], ["hset", b"h", "f", 1.5], ["TICK"]])

    assert (b"EXEC", [[b"INCR", b"n"], [b"hset", b"h", b"f", b"1.5"], [b"TICK"]]) == plain(value)[2:4]
    assert (b"EXEC", []) == plain(encode("EXEC", []))[2:4]


@pytest.mark.parametrize("header", [b"\xde\x00\x03", b"\xdf\x00\x00\x00\x03"])
def test_wide_map_headers(header: bytes) -> None:
    """A producer may write the map's header in any width."""
    assert b"SET" == plain(header + packed()[1:])[2]


def test_field_order() -> None:
    """Fields may come in any order, and their names as str or bin."""
    value: bytes = msgpack.packb({b"args": ["k", "v"], b"cmd": b"SET", b"v": 1})

    assert plain(packed()) == plain(value)


# ------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (packed(ttl=5), "unknown field ttl"),
        (packed(**{"\u00fc" * 40: 1}), "unknown field " + "\u00fc" * 32),
        (packed(v=2), "v is not 1, the one version that is known"),
        (packed(v=True), "v is not 1, the one version that is known"),
        (packed(v=1.0), "v is not 1, the one version that is known"),
        (packed(v="1"), "v is not 1, the one version that is known"),
        (msgpack.packb({"cmd": "SET", "args": []}), "v is not 1, the one version that is known"),
        (packed(cmd=""), "cmd is not a string of at least 1 byte"),
        (packed(cmd=5), "cmd is not a string of at least 1 byte"),
        (packed(cmd=None), "cmd is not a string of at least 1 byte"),
        (msgpack.packb({"v": 1, "args": []}), "cmd is not a string of at least 1 byte"),
        (packed(args="k"), "args is not an array"),
        (packed(args={"k": "v"}), "args is not an array"),
        (msgpack.packb({"v": 1, "cmd": "SET"}), "args is not an array"),
        (packed(args=["k", True]), "an argument is a bool"),
        (packed(args=["k", None]), "an argument is nil"),
        (packed(args=["k", float("nan")]), "an argument is NaN"),
        (packed(args=["k", ["v"]]), "an argument is an array"),
        (packed(args=["k", {"v": 1}]), "an argument is a map"),
        (packed(args=["k", msgpack.ExtType(5, b"x")]), "an argument is of an extension type"),
        (packed(args=["k", msgpack.Timestamp(1)]), "an argument is of an extension type"),
        (packed(cmd="EXEC", args=["GET", "k"]), "a command of an EXEC is not an array of its name and arguments"),
        (packed(cmd="EXEC", args=[["GET", "k"], []]), "a command of an EXEC is not an array of its name and arguments"),
        (packed(cmd="EXEC", args=[[5, "k"]]), "a command of an EXEC is not an array of its name and arguments"),
        (packed(cmd="EXEC", args=[["SET", "k", ["v"]]]), "an argument is an array"),
        (packed(id=""), "id is not a string of 1 to 64 bytes"),
        (packed(id="x" * 65), "id is not a string of 1 to 64 bytes"),
        (packed(id=7), "id is not a string of 1 to 64 bytes"),
        (packed(id=None), "id is not a string of 1 to 64 bytes"),
        (packed(db=-1), "db is not an integer from 0 to 15"),
        (packed(db=16), "db is not an integer from 0 to 15"),
        (packed(db=True), "db is not an integer from 0 to 15"),
        (packed(db=None), "db is not an integer from 0 to 15"),
        (packed(session=b"s" * 15), "session is not a string of 16 bytes"),
        (packed(session=5), "session is not a string of 16 bytes"),
        (packed(session=None), "session is not a string of 16 bytes"),
        (packed(meta=[]), "meta is not a map"),
        (packed(meta=None), "meta is not a map"),
        (packed(meta={"a": {"b": []}}), "arrays and maps nested deeper than 3"),
        (packed(meta={"a": [{}]}), "arrays and maps nested deeper than 3"),
        (packed(meta={"a": {"b": []}, "pad": "x" * 2000}), "arrays and maps nested deeper than 3"),
        (b"\x84" + packed()[1:] + msgpack.packb("v") + b"\x01", "a field is given twice"),
        (b"\x84" + packed()[1:] + msgpack.packb(b"cmd") + msgpack.packb("DEL"), "a field is given twice"),
        (b"\xde\x00\x04" + packed()[1:] + msgpack.packb("v") + b"\x01", "a field is given twice"),
        (b"\xdf\x00\x00\x00\x04" + packed()[1:] + msgpack.packb("v") + b"\x01", "a field is given twice"),
        (None, "the record has no value"),
        (b"\x93\x01\x02\x03", "the value is not a map"),
        (b"\x05", "the value is not a map"),
        (b'{"cmd":"SET"}', "the value is not msgpack: unpack(b) received extra data."),
        (packed() + b"\x00", "the value is not msgpack: unpack(b) received extra data."),
        (packed()[:-1], "the value is not msgpack: Unpack failed: incomplete input"),
        (packed(args=["x" * 2000])[:-1], "the value is not msgpack: it is cut short"),
        (b"\x81" + b"\xc1" * 2000, "the value is not msgpack: FormatError"),
    ],
)
def test_refused(value: bytes | None, expected: str) -> None:
    """Anything but an event is refused with a reason that names the first thing wrong."""
    assert expected == reason(value)


@pytest.mark.parametrize("value", [b"", b"\xc1", b"\x00\x00\x00\x00\x01", b"\x81\x01\x02", b"\x81\x90\x01"])
def test_not_msgpack(value: bytes) -> None:
    """Empty values, schema-registry frames, the unused byte and maps with other keys than strings are refused."""
    assert reason(value).startswith("the value is not ")


def test_padding_changes_nothing() -> None:
    """What is refused in a small event is refused in one that is large enough for its headers to be walked first."""
    pad = "x" * 2000
    for wrong in (True, None, float("nan"), ["v"], {"v": 1}, msgpack.ExtType(5, b"x")):
        assert reason(packed(args=["k", wrong])) == reason(packed(args=[pad, wrong]))
    for number in (1, -1, 2**40, 1.5):
        assert plain(packed(args=["k", number]))[3][1] == plain(packed(args=[pad, number]))[3][1]


def test_cannot_be_written() -> None:
    """A value that msgpack cannot hold is refused when it is written."""
    for args in (["k", 2**64], ["k", object()], ["k", "\ud800"]):
        with pytest.raises(EventError, match="cannot be written as msgpack"):
            encode("SET", args)


# ------------------------------------------------------------------ limits


def test_record_size() -> None:
    """A record of 8 MiB is an event; one byte more is not."""
    overhead = len(packed(args=["k", "x" * 100_000])) - 100_000
    largest = packed(args=["k", "x" * (RECORD_BYTES_MAX - overhead)])
    assert len(largest) == RECORD_BYTES_MAX

    assert b"SET" == plain(largest)[2]
    assert f"the record has more than {RECORD_BYTES_MAX} bytes" == reason(
        packed(args=["kk", "x" * (RECORD_BYTES_MAX - overhead)])
    )


def test_argument_count() -> None:
    """An event has 1,048,576 arguments at most; those of all commands of a transaction are counted together."""
    assert len(plain(packed(args=["k"] * ARGUMENTS_MAX))[3]) == ARGUMENTS_MAX
    assert f"more than {ARGUMENTS_MAX} arguments" == reason(packed(args=["k"] * (ARGUMENTS_MAX + 1)))
    halves = [["k"] * (ARGUMENTS_MAX // 2)] * 2
    assert f"more than {ARGUMENTS_MAX} arguments" == reason(packed(cmd="EXEC", args=halves))


def _nested(levels: int, header: bytes) -> bytes:
    return b"\x83\xa1v\x01\xa3cmd\xa1X\xa4args" + header * levels + b"\x90"


def test_fields_of_a_large_record() -> None:
    """A record of more than 7 fields, or that is an array, is refused by its first bytes, as a small one is."""
    assert "more than 7 fields" == reason(msgpack.packb({f"field {number}": "x" * 200 for number in range(8)}))
    assert "the value is not a map" == reason(msgpack.packb(["x" * 2000])) == reason(msgpack.packb(["x"]))


@pytest.mark.parametrize(
    "bomb",
    [
        pytest.param(packed(args=[{}] * 7_600_000), id="7.6 MB of empty maps"),
        pytest.param(packed(cmd="EXEC", args=[[]] * 7_600_000), id="7.6 MB of empty commands"),
        pytest.param(packed(meta={"m": [0] * 7_600_000}), id="7.6 million numbers in meta"),
        pytest.param(_nested(1_000_000, b"\x91"), id="a million arrays in each other"),
        pytest.param(
            _nested(1000, b"\xdd\x00\x7f\xff\xff") + b"\x00" * (8 * MIB - 6000), id="headers that claim it all"
        ),
        pytest.param(b"\xdd\xff\xff\xff\xff" + b"\x00" * 2000, id="an array of 4 billion"),
        pytest.param(b"\xdf\xff\xff\xff\xff" + b"\x00" * 2000, id="a map of 4 billion"),
        pytest.param(
            b"\xdf"
            + struct.pack(">I", 1_600_000)
            + b"".join(b"\xa3%b\x01" % struct.pack(">I", n)[1:] for n in range(1_600_000)),
            id="a map of 1.6 million fields",
        ),
        pytest.param(b"\xdd" + struct.pack(">I", 8_000_000) + b"\x01" * 8_000_000, id="an array of 8 million numbers"),
        pytest.param(
            b"\x83\xa1v\x01\xa3cmd\xa1X\xa4args\x91\xc6\xff\xff\xff\xff" + b"\x00" * 2000, id="4 GiB of bytes"
        ),
        pytest.param(_nested(200, b"\xdc\x03\xff"), id="the worst of the small ones"),
    ],
)
def test_bombs(bomb: bytes) -> None:
    """A record that wants to blow up is refused, and less than 4 MiB is taken for it."""
    tracemalloc.start()
    try:
        assert reason(bomb)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 4 * MIB


# ------------------------------------------------------------------ nothing breaks it

_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.binary() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(0, 9), inner),
    max_leaves=20,
)
_almost_events = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("v", "cmd", "args", "id", "db", "session", "meta", "x"), _values)
) | st.builds(
    lambda fields: {**BARE, **fields}, st.dictionaries(st.sampled_from(["cmd", "args", "id", "meta"]), _values)
)


def _is_sound(record: Record) -> bool:
    """Whether a record is what the machine may be given."""
    _, _, name, args, db, event_id, session = record
    commands = args if name == b"EXEC" else [args]
    return (
        (bool(name) or len(args) == 1)
        and all(type(arg) is bytes for command in commands for arg in command)
        and type(db) is int
        and (event_id is None or 1 <= len(event_id) <= 64)
        and (session is None or len(session) == 16)
    )


@given(st.binary(max_size=3000))
def test_any_bytes(value: bytes) -> None:
    """Whatever the bytes, there is a record, and it is sound."""
    assert _is_sound(plain(value))


@given(_almost_events)
def test_any_event(event: dict[str, Any]) -> None:
    """Whatever msgpack holds, there is a record, and it is sound."""
    assert _is_sound(plain(msgpack.packb(event)))


@given(_almost_events, st.data())
def test_damaged_events(event: dict[str, Any], data: st.DataObject) -> None:
    """Whatever is cut from or changed in the bytes of an event, there is a record, and it is sound."""
    value = bytearray(msgpack.packb({**BARE, **event}) + b"\x00" * data.draw(st.sampled_from([0, 2000])))
    at = data.draw(st.integers(0, len(value) - 1))
    value[at] = data.draw(st.integers(0, 255))

    assert _is_sound(plain(bytes(value[: data.draw(st.integers(0, len(value)))])))


@given(st.integers(0, 255), st.integers(0, 2**32 - 1), st.integers(0, 1500))
def test_any_header(head: int, length: int, padding: int) -> None:
    """Whatever header an argument has, in small and large events, there is a record, and it is sound."""
    value = b"\x83\xa1v\x01\xa3cmd\xa1X\xa4args\x91" + bytes([head]) + struct.pack(">I", length) + b"\x00" * padding

    assert _is_sound(plain(value))


_arguments = st.one_of(st.text(max_size=4), st.integers(-9, 2**64 - 1), st.none(), st.lists(st.just("GET"), max_size=2))


@given(st.sampled_from(["SET", "hset", "EXEC", "Get", "NOPE"]), st.lists(_arguments, max_size=5))
@example("SET", ["k", "v" * 1100])
def test_a_known_head_changes_nothing(name: str, args: list[Any]) -> None:
    """An event with a known head, however its bytes are cut or changed, is what it is when it is read as a whole."""
    value = encode(name, args)
    changed = (value[:at] + b"\x93" + value[at + 1 :] for at in range(min(len(value), 40)))
    values = [value, value[:-1], value + b"\x01", *changed]
    quick = [plain(each) for each in values]
    with patch.object(events, "NAMES_BY_HEAD", {}):
        whole = [plain(each) for each in values]

    assert whole == quick
