"""Parses files of events without I/O: JSON Lines, or a msgpack stream of the same maps.

    {"cmd": "SET", "args": ["k", {"base64": "/w=="}], "id": "order:9", "db": 0, "time": 1357016400000}

`args` holds strings, numbers and, for bytes that are no UTF-8, `{"base64": "…"}` (in msgpack: bin); for EXEC it holds
arrays of them. `id`, `db` and `time` (ms since 1970) may be left out. Blank lines count, and are passed by.
"""

from __future__ import annotations

import binascii
import json
from base64 import b64decode
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, Protocol

from msgpack import Unpacker

from slotlog.shared.errors import PicklableError
from slotlog.shared.limits import ARGUMENTS_MAX, RECORD_BYTES_MAX, TIME_MS_MAX

# A record of 8 MiB whose bytes are all written as \u00XX, and some room for the rest of the line.
LINE_BYTES_MAX: Final = 6 * RECORD_BYTES_MAX + 64 * 1024
_MSGPACK_BYTES_MAX: Final = RECORD_BYTES_MAX + 64 * 1024
_FIELDS: Final = frozenset({"cmd", "args", "id", "db", "time"})
_MSGPACK_MAPS: Final = frozenset({*range(0x80, 0x90), 0xDE, 0xDF})


class InputError(PicklableError, ValueError):
    """Input that is no event. `number` says where: the line, or the place in a msgpack stream, from 1."""

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(reason)
        self.number = number


class InputEvent(NamedTuple):
    """One event of the input; what stands in it is not judged yet, but for its fields.

    `number` is the line, or the place in a msgpack stream, from 1; `time_ms` is None where none was given.
    """

    number: int
    cmd: Any
    args: Any
    id: Any
    db: int
    time_ms: int | None


class EventParser(Protocol):
    """Takes the input piece by piece, cut anywhere."""

    unit: str
    """What `number` counts."""

    def feed(self, data: bytes) -> Iterator[InputEvent]:
        """The events that are whole now. Raises InputError."""
        ...

    def end(self) -> Iterator[InputEvent]:
        """What stands without an end of line. Raises InputError when the input was cut short."""
        ...


def parser_for(format_name: str, first: bytes) -> EventParser:
    """The parser of a format: `json`, `msgpack`, or `auto` to tell by the first byte of the input."""
    if format_name == "auto":
        format_name = "msgpack" if first[:1] and first[0] in _MSGPACK_MAPS else "json"
    return MsgpackStream() if format_name == "msgpack" else JsonLines()


class JsonLines:
    """One JSON object a line; holds at most one line."""

    unit = "line"

    def __init__(self) -> None:
        self._rest = bytearray()
        self._number = 0

    def feed(self, data: bytes) -> Iterator[InputEvent]:
        """The events of the lines that end in `data`."""
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._rest += line
            whole, self._rest = bytes(self._rest), bytearray()
            yield from self._event(whole)
        self._rest += rest
        if len(self._rest) > LINE_BYTES_MAX:
            raise InputError(self._number + 1, f"the line has more than {LINE_BYTES_MAX} bytes")

    def end(self) -> Iterator[InputEvent]:
        """The last line, when no end of line follows it."""
        whole, self._rest = bytes(self._rest), bytearray()
        yield from self._event(whole)

    def _event(self, line: bytes) -> Iterator[InputEvent]:
        self._number += 1
        if not line or line.isspace():
            return
        try:
            fields = _JSON.decode(line.decode().removeprefix("\ufeff"))
        except RecursionError:
            raise InputError(self._number, "the line is nested too deep") from None
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise InputError(self._number, f"the line is not JSON: {error}") from None
        except ValueError as error:
            raise InputError(self._number, str(error)) from None
        yield _event(self._number, fields)


class MsgpackStream:
    """Maps one after another; holds at most one event."""

    unit = "event"

    def __init__(self) -> None:
        self._unpacker = Unpacker(
            raw=True,
            strict_map_key=False,
            max_buffer_size=2 * _MSGPACK_BYTES_MAX,
            max_array_len=ARGUMENTS_MAX,
            max_map_len=2 * len(_FIELDS),
        )
        self._number = 0
        self._fed = 0
        self._whole = 0  # bytes, up to the end of the last whole event

    def feed(self, data: bytes) -> Iterator[InputEvent]:
        """The events that end in `data`."""
        try:
            self._unpacker.feed(data)
            self._fed += len(data)
            for fields in self._unpacker:
                self._number += 1
                self._whole = self._unpacker.tell()
                yield _event(self._number, _named(fields))
        except InputError:
            raise
        except Exception as error:  # noqa: BLE001 - msgpack raises its own, ValueError and TypeError, all for bad bytes
            reason = f"the event is not msgpack, or too large: {error!r}"
            raise InputError(self._number + 1, reason) from None

    def end(self) -> Iterator[InputEvent]:
        """Nothing: a map ends by itself."""
        if self._whole < self._fed:
            raise InputError(self._number + 1, "the event is cut short")
        return iter(())


def _event(number: int, fields: Any) -> InputEvent:
    """An event of its fields; their values are judged by whoever makes the record."""
    if not isinstance(fields, dict):
        raise InputError(number, 'an event is a map such as {"cmd": "SET", "args": ["k", "v"]}')
    unknown = sorted(str(name) for name in fields.keys() - _FIELDS)
    if unknown:
        raise InputError(number, f"unknown field {unknown[0][:64]}; known are {', '.join(sorted(_FIELDS))}")
    for name in ("cmd", "args"):
        if name not in fields:
            raise InputError(number, f"{name} is missing")
    for name in ("db", "time"):
        if type(fields.get(name, 0)) is not int:
            raise InputError(number, f"{name} is not an integer")
    if not 0 <= fields.get("time", 0) <= TIME_MS_MAX:
        raise InputError(number, f"time is outside 0 … {TIME_MS_MAX} ms")
    if "id" in fields and not isinstance(fields["id"], str | bytes):
        raise InputError(number, "id is not a string")
    return InputEvent(number, fields["cmd"], fields["args"], fields.get("id"), fields.get("db", 0), fields.get("time"))


def _object(pairs: list[tuple[str, Any]]) -> Any:
    """A JSON object: bytes for `{"base64": "…"}`, else a dict."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("a field is given twice")
    if fields.keys() == {"base64"} and isinstance(fields["base64"], str):
        try:
            return b64decode(fields["base64"], validate=True)
        except binascii.Error as error:
            raise ValueError(f"not base64: {error}") from None
    return fields


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_JSON: Final = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_refuse_constant)


def _named(fields: Any) -> Any:
    """A map of msgpack with its names as text, as JSON has them."""
    if not isinstance(fields, dict):
        return fields
    return {
        name.decode(errors="backslashreplace") if isinstance(name, bytes) else name: value
        for name, value in fields.items()
    }
