"""The index of sorted sets in a Redis server.

Each one is a sorted set there, under the name that the layout gives it.

    c#…                           a sorted set: items and their scores
    slotlog/[topic]/[partition]   [owner]:[number], of the state whose index it is, and of the newest batch

A batch is one script, which compares that record, changes the sets, and writes the record last. Nothing comes between.
Where a command fails within, the record stays as it was, so that the batch is repeated. The server must keep what it is
told, so it needs `appendonly yes` and no eviction: it is a part of the state, not a cache. What it has lost after a
crash of its own is found at the next opening.

A connection that breaks is not made anew here: the server may have come back with less than it had. Whoever opens the
store again has the number compared first.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, Final

from redis.backoff import NoBackoff
from redis.connection import ConnectionPool
from redis.exceptions import RedisError
from redis.retry import Retry

from engine.errors import IndexUnavailableError, StateMismatchError
from engine.layouts.index import IndexChanges
from engine.values.encoding import U32, pack_score, parse_score
from ops.config import ConfigError

PASSWORD_VARIABLE: Final = "REDISCLI_AUTH"  # noqa: S105 - the name of a variable, that of redis-cli
_CONNECT_SECONDS: Final = 2.0
_REPLY_SECONDS: Final = 10.0
_PAGE: Final = 1000
_LOWEST: Final = pack_score(-math.inf)
_HIGHEST: Final = pack_score(math.inf)

_APPLY: Final = """
local held = redis.call('GET', KEYS[1])
if (held or '') ~= ARGV[1] then
    return held or ''
end
for number = 3, #ARGV do
    local words, at = {}, 1
    while at <= #ARGV[number] do
        words[#words + 1], at = struct.unpack('>I4c0', ARGV[number], at)
    end
    redis.call(unpack(words))
end
redis.call('SET', KEYS[1], ARGV[2])
return 1
"""
"""Compares the record with the first argument, runs the commands behind the second one, which is the new record.

A command is one argument, as `_packed` makes it: a server takes about a million of them at most. Returns 1, or what the
record is.
"""

Words = tuple[bytes | str | int, ...]


class RedisIndex:
    """The index of one partition.

    Args:
        url: redis://, rediss:// or unix://, as redis-py reads it.
        topic: of the log.
        partition: whose index it is.
        owner: what tells the state from all others.
        pinned: every read is refused once the index has another number than at the first one.

    Raises:
        ConfigError: the URL is none.
        IndexUnavailableError: the server cannot be reached.
    """

    def __init__(self, url: str, topic: str, partition: int, owner: str, *, pinned: bool = False) -> None:
        scheme, _, rest = url.partition("://")
        self.label = f"{scheme}://{rest.rpartition('@')[2]}".partition("?")[0]
        self._record = f"slotlog/{topic}/{partition}".encode()
        self._owner = owner.encode()
        self._is_pinned, self._pin = pinned, b""
        self._closed = ""  # why
        password = os.environ.get(PASSWORD_VARIABLE)
        given = {"password": password} if password else {}
        try:
            pool = ConnectionPool.from_url(
                url,
                **given,
                protocol=2,
                socket_connect_timeout=_CONNECT_SECONDS,
                socket_timeout=_REPLY_SECONDS,
                retry=Retry(NoBackoff(), 0),
            )
        except (ValueError, TypeError):
            raise ConfigError(f"--index: {self.label} is no URL of a server: redis://HOST:PORT") from None
        # What redis-py says of its own types is too little to check them.
        connection: Any = pool.make_connection()
        self._connection = connection
        with self._errors():
            connection.connect()

    def number(self) -> int | None:
        """That of the newest batch that was applied; None where the server has nothing of this partition."""
        (content,) = self._ask([("GET", self._record)])
        self._pin = content
        return self._parse(content)

    def apply(self, number: int, changes: IndexChanges) -> None:
        """Apply a batch as one."""
        before = b"%b:%d" % (self._owner, number - 1) if number > 1 else b""
        commands = [_packed(b"UNLINK", name) for name in changes.dropped]
        for name, items in changes.items.items():
            commands += _of_set(name, items)
        after = b"%b:%d" % (self._owner, number)
        (held,) = self._ask([("EVAL", _APPLY, 1, self._record, before, after, *commands)])
        if held != 1:
            text = f"the index in {self.label} stands at batch {self._parse(held or None) or 0}"
            text += f", and the next one is {number}"
            raise StateMismatchError(f"{text}: something else has changed it, or it has lost what it had")

    def score(self, name: bytes, item: bytes) -> bytes | None:
        """The packed score of an item; None when it is not there."""
        score = self._read("ZSCORE", name, item)
        return None if score is None else pack_score(float(score))

    def scan(self, name: bytes, low: bytes, high: bytes, *, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        """The (packed score, item) pairs with `low <= packed score <= high`, a page at a time."""
        if low > _HIGHEST or high < _LOWEST:
            return
        first, last = (_bound(high), _bound(low)) if reverse else (_bound(low), _bound(high))
        skipped = 0
        while True:
            order = ("BYSCORE", "REV") if reverse else ("BYSCORE",)
            found = self._read("ZRANGE", name, first, last, *order, "LIMIT", skipped, _PAGE, "WITHSCORES")
            items, scores = found[::2], found[1::2]
            for item, score in zip(items, scores, strict=True):
                yield pack_score(float(score)), item
            if len(items) < _PAGE:
                return
            # The next page begins with the last score of this one, behind all of its items that there have been.
            same = sum(1 for score in scores if score == scores[-1])
            skipped = skipped + same if scores[-1] == first else same
            first = scores[-1]

    def names(self) -> Iterator[bytes]:
        """The names of all sorted sets."""
        cursor = b"0"
        while True:
            cursor, names = self._read("SCAN", cursor, "COUNT", _PAGE, "TYPE", "zset")
            yield from names
            if cursor == b"0":
                return

    def close(self) -> None:
        """Close the connection."""
        self._closed = self._closed or f"the connection to the index in {self.label} is closed"
        self._connection.disconnect()

    # ------------------------------------------------------------------ inside

    def _parse(self, content: bytes | None) -> int | None:
        if content is None:
            return None
        owner, _, number = content.rpartition(b":")
        if owner != self._owner or not number.isdigit():
            raise StateMismatchError(
                f"{self.label} has the index of another state, by its record {self._record.decode()}: give this one"
                " another database of the server (redis://HOST:PORT/1), or empty that one (FLUSHDB)"
            )
        return int(number)

    def _read(self, *command: bytes | str | int) -> Any:
        """The reply to a reading command."""
        if not self._is_pinned:
            return self._ask([command])[0]
        content, reply = self._ask([("MULTI",), ("GET", self._record), command, ("EXEC",)])[-1]
        if content != self._pin:
            text = f"the index in {self.label} has gone on while it was read: a service writes to it"
            raise IndexUnavailableError(f"{text}; try again, or when it is stopped")
        return reply

    def _ask(self, commands: Sequence[Words]) -> list[Any]:
        """The replies to commands that go out together."""
        if self._closed:  # redis-py would connect again
            raise IndexUnavailableError(self._closed)
        with self._errors():
            self._connection.send_packed_command(self._connection.pack_commands(commands))
            replies = [self._connection.read_response(disable_decoding=True) for _ in commands]
            for reply in replies[-1] if isinstance(replies[-1], list) else ():
                if isinstance(reply, RedisError):
                    raise reply
            return replies

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn what redis-py raises into a sentence, and break with the server: what it has is not known any more."""
        try:
            yield
        except (RedisError, OSError) as error:
            self._closed = f"the index in {self.label} cannot be used: {error}"
            self.close()
            raise IndexUnavailableError(self._closed) from error


def _packed(*words: bytes) -> bytes:
    """A command as one string: `[length:4]` and bytes for each word."""
    return b"".join(piece for word in words for piece in (U32.pack(len(word)), word))


def _of_set(name: bytes, items: dict[bytes, bytes | None]) -> Iterator[bytes]:
    """The commands for the items of one set, of bounded length."""
    gone = iter([item for item, score in items.items() if score is None])
    while part := tuple(islice(gone, _PAGE)):
        yield _packed(b"ZREM", name, *part)
    put = iter([(item, score) for item, score in items.items() if score is not None])
    while pairs := list(islice(put, _PAGE)):
        yield _packed(b"ZADD", name, *(word for item, score in pairs for word in (_bound(score), item)))


def _bound(score: bytes) -> bytes:
    """A packed score as Redis reads it; what is below or above all of them, as the lowest or the highest."""
    if score <= _LOWEST:
        return b"-inf"
    if score >= _HIGHEST:
        return b"+inf"
    return repr(parse_score(score)).encode()
