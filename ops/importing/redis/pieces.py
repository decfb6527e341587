"""Reads one key of a server in pieces with plain commands, and tells whether it changed meanwhile.

    stream  DUMP, as no other commands tell all of it; one that is too large for RESTORE is left out
    string  GETRANGE       list  LRANGE       set  SSCAN       hash  HSCAN, HPEXPIRETIME       sorted set  ZSCAN

So a key needs no more memory than a piece, here and at the server, whatever its size; and a value that DUMP gives in a
format which the engine cannot read comes over all the same. The key is watched (WATCH) from the first command to the
last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import chain
from typing import Any, Final

from engine.model import HASH, LIST, SET, STREAM, STRING, TYPE_NAMES, ZSET
from engine.values.rdb.content import Content
from engine.values.rdb.decode import decode
from engine.values.rdb.errors import FormatError, TooLargeError, UnsupportedError, VersionError
from ops.importing.key_events import events_of, too_large
from ops.importing.redis.server import Server, WrongTypeError
from ops.importing.source import Command

_PIECE_BYTES: Final = 1024 * 1024
_FIRST_ELEMENTS: Final = 16
_ELEMENTS_MAX: Final = 4096
_GROWTH_MAX: Final = 4
_DIGEST_BYTES: Final = 16
_DIGESTS: Final = 1 << 8 * _DIGEST_BYTES

_CODES: Final = {name: code for code, name in TYPE_NAMES.items() if name != "none"}
_SCANS: Final = {SET: "SSCAN", HASH: "HSCAN", ZSET: "ZSCAN"}


class _UnreadError(ValueError):
    """A value that cannot be read here; the message says why."""


class Reading:
    """A key that is read in pieces. Nothing else may use the server meanwhile.

    Attributes:
        kind: what TYPE says; `none` where the key is not there.
        expire_ms: when it dies, 0 for never.
        unchanged: whether it was the same all along; known once `events` have come to their end.
    """

    def __init__(self, server: Server, db: int, name: bytes) -> None:
        self._server = server
        self._db = db
        self._name = name
        server.ask(db, [("WATCH", name)])
        self.kind = server.type(db, name)
        self.expire_ms = server.expire_ms(db, name)
        self.unchanged = False

    def survey(self) -> tuple[bytes, str]:
        """Read all of it: a digest of the value, and why an event cannot hold an element of it; empty when all fit.

        The digest is the same in whatever order a hash table has its elements, and empty where the key has got another
        type meanwhile.
        """
        try:
            return self._digest()
        except WrongTypeError:
            return b"", ""
        except _UnreadError as error:
            return b"", str(error)

    def _digest(self) -> tuple[bytes, str]:
        code = _CODES[self.kind]
        running, total, string_bytes = blake2b(digest_size=_DIGEST_BYTES), 0, 0
        for content in self._contents():
            if reason := too_large(self._name, content, string_bytes):
                return b"", reason
            if code == STRING:
                running.update(content.texts[0])
                string_bytes += len(content.texts[0])
            if content.stream is not None:
                running.update(repr(content.stream).encode())
            for element in _elements(content) if code != STRING else ():
                if code == LIST:
                    running.update(element)
                else:
                    total += int.from_bytes(blake2b(element, digest_size=_DIGEST_BYTES).digest(), "big")
        running.update((total % _DIGESTS).to_bytes(_DIGEST_BYTES, "big"))
        return running.digest(), ""

    def events(self) -> Iterator[Command]:
        """Read all of it again, as events. They end where the key gets another type."""
        contents = self._contents()
        try:
            first = next(contents, None)
            if first is None:  # it went away meanwhile
                yield b"DEL", [self._name]
            else:
                yield from events_of(self._name, self.expire_ms, chain([first], contents))
        except WrongTypeError:
            return
        self.unchanged = self._server.ask(self._db, [("MULTI",), ("EXEC",)])[-1] is not None

    def end(self) -> None:
        """Watch it no more."""
        self._server.ask(self._db, [("UNWATCH",)])

    def _contents(self) -> Iterator[Content]:
        code = _CODES[self.kind]
        if code == STRING:
            return self._stretches()
        if code == STREAM:
            return self._dumped()
        return self._parts_of_list() if code == LIST else self._scanned(code)

    def _dumped(self) -> Iterator[Content]:
        """The whole of a stream.

        Raises:
            _UnreadError: it cannot be decoded, or there would be too much of it in memory.
        """
        (payload,) = self._server.ask(self._db, [("DUMP", self._name)])
        if payload is None:
            return
        try:
            yield decode(payload)
        except (UnsupportedError, VersionError, FormatError, TooLargeError) as error:
            raise _UnreadError(
                f"a stream that cannot be taken from a running server ({error}): import an RDB file"
            ) from error

    def _stretches(self) -> Iterator[Content]:
        size, is_there = self._server.ask(self._db, [("STRLEN", self._name), ("EXISTS", self._name)])
        if is_there and not size:
            yield Content(STRING, [b""])
        for start in range(0, size, _PIECE_BYTES):
            (text,) = self._server.ask(self._db, [("GETRANGE", self._name, start, start + _PIECE_BYTES - 1)])
            yield Content(STRING, [text])

    def _parts_of_list(self) -> Iterator[Content]:
        start, count = 0, _FIRST_ELEMENTS
        while texts := self._server.ask(self._db, [("LRANGE", self._name, start, start + count - 1)])[0]:
            yield Content(LIST, texts)
            start += len(texts)
            count = _next_count(count, texts)

    def _scanned(self, code: int) -> Iterator[Content]:
        """The parts of a collection without an order; SCAN may give an element twice, in one part it stands once."""
        cursor, count = -1, _FIRST_ELEMENTS
        while cursor:
            scan = (_SCANS[code], self._name, max(cursor, 0), "COUNT", count)
            ((behind, texts),) = self._server.ask(self._db, [scan])
            cursor = int(behind)
            if texts:
                yield self._content(code, texts)
                count = _next_count(count, texts)

    def _content(self, code: int, texts: list[bytes]) -> Content:
        if code == SET:
            return Content(SET, list(dict.fromkeys(texts)))
        pairs = dict(zip(texts[::2], texts[1::2], strict=True))
        if code == ZSET:
            return Content(ZSET, list(pairs), [float(score) for score in pairs.values()])
        times: Any = ()
        if self._server.field_times:
            (times,) = self._server.ask(self._db, [("HPEXPIRETIME", self._name, "FIELDS", len(pairs), *pairs)])
        expires_ms = [max(time, 0) for time in times or ()]
        return Content(HASH, [*chain.from_iterable(pairs.items())], expires_ms=expires_ms if any(expires_ms) else ())


def _next_count(count: int, texts: Iterable[bytes]) -> int:
    """How many elements to ask for next, so that a piece has about _PIECE_BYTES."""
    room = _PIECE_BYTES / max(sum(map(len, texts)), 1)
    return max(1, min(int(count * min(room, _GROWTH_MAX)), _ELEMENTS_MAX))


def _elements(content: Content) -> Iterator[bytes]:
    """Each element as bytes that are those of no other."""
    if content.type == HASH:
        times = content.expires_ms or [0] * (len(content.texts) // 2)
        for field, value, time in zip(content.texts[::2], content.texts[1::2], times, strict=True):
            yield b"%d %d %b%b" % (len(field), time, field, value)
    elif content.type == ZSET:
        for member, score in zip(content.texts, content.scores, strict=True):
            yield b"%b %b" % (score.hex().encode(), member)
    else:
        for text in content.texts:
            yield b"%d %b" % (len(text), text)
