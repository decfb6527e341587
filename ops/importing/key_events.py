"""Makes the events that bring one key of any size into the log, exactly as it is.

A key that fits is one event. A larger one comes in several, of at most EVENT_BYTES each. The first replaces whatever
the key was, so a key that is sent again from its first event on is the same. The times to live come with each event: a
key or a field whose time comes between two of its events does not stay. Until the last event a reader sees the part of
the key that is there.

    string        SET key value [PXAT ms]      then APPEND key value, with a time to live in one EXEC with PEXPIREAT
    stream        see `ops.importing.stream_events`
    all others    EXEC: DEL key; RPUSH, SADD, HSET or ZADD; HPEXPIREAT for each time of fields; PEXPIREAT
                  then the same without DEL

A RESTORE could hold no more than a record either, and costs both sides more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final, NamedTuple

from engine.limits import STRING_BYTES_MAX
from engine.model import HASH, LIST, SET, STREAM, STRING, ZSET
from engine.proof.walk import LiveKey
from engine.values.encoding import parse_score
from engine.values.rdb.content import Content
from engine.values.stream_walk import parts_of
from ops.importing.source import Command
from ops.importing.stream_events import largest_entry_bytes, stream_events
from slotlog.shared.doubles import format_double
from slotlog.shared.limits import RECORD_BYTES_MAX
from slotlog.wording import sized

EVENT_BYTES: Final = 1024 * 1024
"""About as much as one of the events of a large key holds. A single element may be longer, up to that of a record."""

_ELEMENTS_MAX: Final = 8192
_STRING_BYTES: Final = 4 * 1024 * 1024
_PART_ELEMENTS: Final = 1024

_NAMES_MAX: Final = 4  # times that a name stands in an event with one element
_FRAME_BYTES: Final = 1024  # of such an event: names of commands, numbers, headers of msgpack
_ELEMENT_BYTES: Final = 32  # beside an element's own bytes: its headers, its score
_TIME_BYTES: Final = 64  # of an HPEXPIREAT, beside the key and the field

_ADDS: Final = {LIST: b"RPUSH", SET: b"SADD", HASH: b"HSET", ZSET: b"ZADD"}


class _Element(NamedTuple):
    """What is added as one: a field with its value, a member with its score. `bytes` is what it takes in an event."""

    words: tuple[bytes, ...]
    expire_ms: int
    bytes: int


def events_of(name: bytes, expire_ms: int, contents: Iterable[Content]) -> Iterator[Command]:
    """The events of the key `name`, made as they are asked for.

    Args:
        name: of the key.
        expire_ms: when it dies, 0 for never.
        contents: its content in parts of any size, at least one, none of them empty. `too_large` has let all of them
            pass. Those of a string follow one another in it.
    """
    contents = iter(contents)
    first = next(contents)
    if first.type == STRING:
        yield from _string_events(name, expire_ms, chain([first], contents))
        return
    if first.type == STREAM:
        yield from stream_events(name, expire_ms, (part.stream for part in chain([first], contents) if part.stream))
        return
    pieces = _pieces(name, chain([first], contents))
    yield b"EXEC", [[b"DEL", name], *_commands(name, first.type, expire_ms, next(pieces))]
    for piece in pieces:
        yield b"EXEC", _commands(name, first.type, expire_ms, piece)


def too_large(name: bytes, content: Content, string_bytes: int = 0) -> str:
    """Why events cannot bring `content`; empty when they can. So many bytes of its string came in parts before it."""
    room = RECORD_BYTES_MAX - _FRAME_BYTES - _NAMES_MAX * len(name)
    if room < _FRAME_BYTES:
        return f"a name of {sized(len(name))}: an event takes at most {sized(RECORD_BYTES_MAX)}"
    if content.type == STRING:  # which comes in pieces
        size = string_bytes + len(content.texts[0])
        return "" if size <= STRING_BYTES_MAX else f"a string of more than {sized(STRING_BYTES_MAX)}"
    if content.stream is not None:
        size = largest_entry_bytes(content.stream)
        return "" if size <= room else f"an entry of {sized(size)}: an event takes at most {sized(RECORD_BYTES_MAX)}"
    longest = max(len(text) for text in content.texts)
    if 3 * longest + len(name) + _TIME_BYTES + _ELEMENT_BYTES <= room:  # a field with a time to live, and its value
        return ""
    if any(element.bytes > room for element in _elements(name, content)):
        return f"an element of {sized(longest)}: an event takes at most {sized(RECORD_BYTES_MAX)}"
    return ""


def contents_of(key: LiveKey) -> Iterator[Content]:
    """The content of a key of a state, in parts. Nothing else may read it meanwhile."""
    if key.type == STRING:
        yield Content(STRING, [next(key.content)])
        return
    if key.type == STREAM:
        yield from (Content(STREAM, [], stream=part) for part in parts_of(key.content))
        return
    times = iter(key.field_times)
    timed = next(times, None)
    step = 2 if key.type in (HASH, ZSET) else 1
    while texts := [piece for _, piece in zip(range(step * _PART_ELEMENTS), key.content, strict=False)]:
        expires_ms = []
        for field in texts[::2] if timed is not None else ():
            due = timed is not None and timed[0] == field
            expires_ms.append(timed[1] if due and timed is not None else 0)
            timed = next(times, None) if due else timed
        if key.type == ZSET:
            yield Content(ZSET, texts[::2], [parse_score(score) for score in texts[1::2]])
        else:
            yield Content(key.type, texts, expires_ms=expires_ms if any(expires_ms) else ())


def _string_events(name: bytes, expire_ms: int, contents: Iterable[Content]) -> Iterator[Command]:
    lifetime = [b"PXAT", b"%d" % expire_ms] if expire_ms else []
    values = (content.texts[0] for content in contents)
    stretches = (value[at : at + _STRING_BYTES] for value in values for at in range(0, len(value), _STRING_BYTES))
    yield b"SET", [name, next(stretches, b""), *lifetime]
    for stretch in stretches:
        if expire_ms:
            yield b"EXEC", [[b"APPEND", name, stretch], [b"PEXPIREAT", name, b"%d" % expire_ms]]
        else:
            yield b"APPEND", [name, stretch]


class _Piece:
    """What goes into one event.

    Attributes:
        words: arguments of the command that adds.
        count: elements among them.
        bytes: that they take.
        times: the fields that have a time to live, by that time.
    """

    __slots__ = ("bytes", "count", "times", "words")

    def __init__(self) -> None:
        self.words: list[bytes] = []
        self.count = 0
        self.bytes = 0
        self.times: dict[int, list[bytes]] = {}

    def takes(self, count: int, size: int) -> bool:
        """Whether there is room for so many more elements, and bytes."""
        return not self.count or (self.count + count <= _ELEMENTS_MAX and self.bytes + size <= EVENT_BYTES)

    def add(self, words: Iterable[bytes], count: int, size: int) -> None:
        """Take them."""
        self.words += words
        self.count += count
        self.bytes += size


def _pieces(name: bytes, contents: Iterable[Content]) -> Iterator[_Piece]:
    """The elements, as many together as go into one event, at least one."""
    piece = _Piece()
    for content in contents:
        count = len(content.texts)
        size = sum(map(len, content.texts)) + _ELEMENT_BYTES * count
        if not content.expires_ms and size <= EVENT_BYTES and count <= _ELEMENTS_MAX and piece.takes(count, size):
            piece.add(_words(content), count, size)
            continue
        for element in _elements(name, content):
            if not piece.takes(1, element.bytes):
                yield piece
                piece = _Piece()
            piece.add(element.words, 1, element.bytes)
            if element.expire_ms:
                piece.times.setdefault(element.expire_ms, []).append(element.words[0])
    yield piece


def _words(content: Content) -> Iterable[bytes]:
    if content.type != ZSET:
        return content.texts
    return chain.from_iterable(zip(map(format_double, content.scores), content.texts, strict=True))


def _elements(name: bytes, content: Content) -> Iterator[_Element]:
    texts = content.texts
    if content.type == HASH:
        times = content.expires_ms or [0] * (len(texts) // 2)
        for field, value, expire_ms in zip(texts[::2], texts[1::2], times, strict=True):
            of_time = len(field) + len(name) + _TIME_BYTES if expire_ms else 0
            yield _Element((field, value), expire_ms, len(field) + len(value) + _ELEMENT_BYTES + of_time)
    elif content.type == ZSET:
        for member, score in zip(texts, content.scores, strict=True):
            yield _Element((format_double(score), member), 0, len(member) + _ELEMENT_BYTES)
    else:
        for text in texts:
            yield _Element((text,), 0, len(text) + _ELEMENT_BYTES)


def _commands(name: bytes, kind: int, expire_ms: int, piece: _Piece) -> list[list[bytes]]:
    commands = [[_ADDS[kind], name, *piece.words]]
    for at_ms, fields in piece.times.items():
        commands.append([b"HPEXPIREAT", name, b"%d" % at_ms, b"FIELDS", b"%d" % len(fields), *fields])
    if expire_ms:
        commands.append([b"PEXPIREAT", name, b"%d" % expire_ms])
    return commands
