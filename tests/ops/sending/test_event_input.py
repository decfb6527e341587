"""The two ways to write events down: what is read, what is refused, and where."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgpack
import pytest

from ops.sending import event_input
from ops.sending.event_input import InputError, InputEvent, JsonLines, MsgpackStream, parser_for


def parse(data: bytes, format_name: str = "auto", piece: int = 1 << 20) -> Iterator[InputEvent]:
    """The events in `data`, fed in pieces."""
    parser = parser_for(format_name, data)
    for at in range(0, len(data), piece):
        yield from parser.feed(data[at : at + piece])
    yield from parser.end()


EVENTS: list[dict[str, Any]] = [
    {"cmd": "SET", "args": ["key", "value"]},
    {"cmd": "hset", "args": ["h", "n", 5, "f", 2.5], "id": "one", "db": 3, "time": 1_357_016_400_000},
    {"cmd": "EXEC", "args": [["INCR", "a"], ["SET", "b", "ü"]]},
    {"cmd": "TICK", "args": []},
]


@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
def test_json_lines(piece: int) -> None:
    """Events come out as written, whatever pieces the input comes in, with the number of their line."""
    data = "\n\n".join(json.dumps(event, ensure_ascii=False) for event in EVENTS).encode()

    assert [
        InputEvent(1, "SET", ["key", "value"], None, 0, None),
        InputEvent(3, "hset", ["h", "n", 5, "f", 2.5], "one", 3, 1_357_016_400_000),
        InputEvent(5, "EXEC", [["INCR", "a"], ["SET", "b", "ü"]], None, 0, None),
        InputEvent(7, "TICK", [], None, 0, None),
    ] == list(parse(data, piece=piece))


@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
def test_msgpack_stream(piece: int) -> None:
    """The same maps as msgpack give the same events, text as bytes, with their place in the stream."""
    data = b"".join(map(msgpack.packb, EVENTS))

    assert [
        InputEvent(1, b"SET", [b"key", b"value"], None, 0, None),
        InputEvent(2, b"hset", [b"h", b"n", 5, b"f", 2.5], b"one", 3, 1_357_016_400_000),
        InputEvent(3, b"EXEC", [[b"INCR", b"a"], [b"SET", b"b", "ü".encode()]], None, 0, None),
        InputEvent(4, b"TICK", [], None, 0, None),
    ] == list(parse(data, piece=piece))


def test_base64_is_bytes() -> None:
    """{"base64": …} stands for bytes, as an argument and as an id."""
    (event,) = parse(b'{"cmd":"SET","args":[{"base64":"/wA="},"x"],"id":{"base64":"gA=="}}')

    assert ([b"\xff\x00", "x"], b"\x80") == (event.args, event.id)


def test_windows_text_is_read() -> None:
    """A byte order mark and CR LF do no harm."""
    assert ["SET", "GET"] == [
        event.cmd for event in parse(b'\xef\xbb\xbf{"cmd":"SET","args":[]}\r\n{"cmd":"GET","args":[]}\r\n')
    ]


@pytest.mark.parametrize(
    ("first", "expected"),
    [(b'{"cmd"', JsonLines), (b"\n{", JsonLines), (b"\x82", MsgpackStream), (b"\xde\x00", MsgpackStream)],
)
def test_format_is_told_by_the_first_byte(first: bytes, expected: type) -> None:
    """A msgpack map begins with a byte that no JSON text has."""
    assert isinstance(parser_for("auto", first), expected)


def test_format_can_be_named() -> None:
    """A named format is not guessed."""
    assert isinstance(parser_for("msgpack", b"{"), MsgpackStream)
    assert isinstance(parser_for("json", b"\x82"), JsonLines)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"nonsense", "the line is not JSON"),
        (b"\xff", "the line is not JSON"),
        (b'["SET", "a"]', "an event is a map"),
        (b'{"cmd":"SET"}', "args is missing"),
        (b'{"args":[]}', "cmd is missing"),
        (b'{"cmd":"SET","args":[],"ttl":5}', "unknown field ttl"),
        (b'{"cmd":"SET","args":[],"cmd":"GET"}', "a field is given twice"),
        (b'{"cmd":"SET","args":[],"time":"now"}', "time is not an integer"),
        (b'{"cmd":"SET","args":[],"time":null}', "time is not an integer"),
        (b'{"cmd":"SET","args":[],"db":true}', "db is not an integer"),
        (b'{"cmd":"SET","args":[],"id":7}', "id is not a string"),
        (b'{"cmd":"SET","args":["a",{"base64":"?"}]}', "not base64"),
        (b'{"cmd":"SET","args":["a",NaN]}', "NaN is not JSON"),
        (b'{"cmd":"SET","args":' + b"[" * 100_000, "nested too deep"),
    ],
)
def test_bad_line_is_named(line: bytes, reason: str) -> None:
    """A line that is no event is refused with its number, after the events before it."""
    events = parse(b'{"cmd":"TICK","args":[]}\n\n' + line + b"\n")

    assert 1 == next(events).number
    with pytest.raises(InputError, match=reason) as error:
        next(events)
    assert 3 == error.value.number


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\xc1", "not msgpack"),
        (msgpack.packb([1]), "an event is a map"),
        (msgpack.packb({b"cmd": b"SET", b"args": [], 5: 1}), "unknown field 5"),
        (msgpack.packb({b"cmd": b"SET", b"args": []})[:-3], "cut short"),
        (b"\x82\xa3cmd\xdd\xff\xff\xff\xff", "not msgpack, or too large"),
    ],
)
def test_bad_event_is_named(data: bytes, reason: str) -> None:
    """What stands in a msgpack stream and is no event is refused with its place, after the events before it."""
    events = parse(msgpack.packb({"cmd": "TICK", "args": []}) + data)

    assert 1 == next(events).number
    with pytest.raises(InputError, match=reason) as error:
        next(events)
    assert 2 == error.value.number


def test_endless_line_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line has a bound, so that a file without line ends is not read into memory."""
    monkeypatch.setattr(event_input, "LINE_BYTES_MAX", 1000)

    with pytest.raises(InputError, match="more than 1000 bytes"):
        list(parse(b'"' + b"a" * 2000, piece=100))
