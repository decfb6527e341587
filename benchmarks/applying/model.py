"""The measured events in plain dicts: the expected digest, found without the engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgpack import unpackb

from engine.model import HASH, LIST, SET, STRING, ZSET
from engine.proof.digest import Digest, digest_of_items
from slotlog.log import LogRecord


class Model:
    """The commands of the workloads, as far as the workloads use them: one database, no key of two types."""

    def __init__(self) -> None:
        self._values: dict[bytes, tuple[int, Any]] = {}
        self._expires: dict[bytes, int] = {}
        self._ids: dict[bytes, None] = {}
        self._now_ms = 0
        self.new_fields = 0
        """How many HSETs met a field that was not there."""

    def apply(self, records: Iterable[LogRecord]) -> None:
        """Apply records of a log."""
        for _, time_ms, _, value in records:
            event = unpackb(value, raw=True)
            self._now_ms = max(self._now_ms, time_ms)
            event_id = event.get(b"id")
            if event_id is not None:
                if event_id in self._ids:
                    continue
                self._ids[event_id] = None
            name, args = event[b"cmd"], event[b"args"]
            for command, *arguments in args if name == b"EXEC" else [[name, *args]]:
                getattr(self, f"_{command.decode().lower()}")(*arguments)

    def digest(self) -> Digest:
        """The digest of what is alive at the time of the last record."""
        return digest_of_items(self._alive())

    def _alive(self) -> Iterator[tuple[int, bytes, int, int, Any]]:
        for name, (type_code, value) in self._values.items():
            expire_ms = self._expires.get(name, 0)
            if not 0 < expire_ms <= self._now_ms:
                yield 0, name, type_code, expire_ms, value

    def _of(self, name: bytes, type_code: int, empty: type) -> Any:
        if 0 < self._expires.get(name, 0) <= self._now_ms:
            del self._values[name], self._expires[name]
        return self._values.setdefault(name, (type_code, empty()))[1]

    def _hset(self, name: bytes, *pairs: Any) -> None:
        fields = self._of(name, HASH, dict)
        for field, value in zip(pairs[::2], pairs[1::2], strict=True):
            self.new_fields += field not in fields
            fields[field] = value if isinstance(value, bytes) else b"%d" % value

    def _set(self, name: bytes, value: bytes) -> None:
        self._values[name] = (STRING, value)

    def _incr(self, name: bytes) -> None:
        self._values[name] = (STRING, b"%d" % (int(self._values.get(name, (STRING, b"0"))[1]) + 1))

    def _zadd(self, name: bytes, score: int, member: bytes) -> None:
        self._of(name, ZSET, dict)[member] = float(score)

    def _lpush(self, name: bytes, value: bytes) -> None:
        self._of(name, LIST, list).insert(0, value)

    def _ltrim(self, name: bytes, first: int, last: int) -> None:
        del self._of(name, LIST, list)[last + 1 :]

    def _sadd(self, name: bytes, member: bytes) -> None:
        self._of(name, SET, dict)[member] = None

    def _pexpire(self, name: bytes, ttl_ms: int) -> None:
        self._expires[name] = self._now_ms + ttl_ms
