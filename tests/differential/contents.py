"""Everything that a side holds, in one shape that can be compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from engine.layouts.layout import Layout
from engine.layouts.records import metadata_records
from engine.model import HASH, LIST, SET, STREAM, STRING, TYPE_NAMES, ZSET
from engine.proof.walk import live_keys
from engine.store.store import Store
from engine.values.encoding import parse_score
from engine.values.rdb.decode import decode
from tests.differential.payloads import in_order
from tests.differential.streams import content_of_engine, content_of_oracle
from tests.differential.vocabulary import EXACT_FROM_MS, EXACT_UNTIL_MS, SPREAD_S
from tests.layouts.differences import is_counted_without_elements
from tests.real.oracle import Connection

DATABASES: Final = 3
"""Databases that the sequences use, and one more that must stay empty."""


@dataclass(eq=False, slots=True)
class Expiry:
    """When a key dies; -1 for never. Equal within the spread of two clocks, or exactly for a time given as one."""

    ms: int

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Expiry):
            return NotImplemented
        exact = self.ms < 0 or other.ms < 0 or EXACT_FROM_MS <= self.ms < EXACT_UNTIL_MS
        return self.ms == other.ms if exact else abs(self.ms - other.ms) <= SPREAD_S * 1000


class Contents(NamedTuple):
    """(db, name) -> (type, content, expiry), and of a hash field -> expiry, where it has one."""

    keys: dict[tuple[int, bytes], tuple[str, Any, Expiry]]
    fields: dict[tuple[int, bytes], dict[bytes, Expiry]]


def of_engine(store: Store, layout: Layout, now_ms: int) -> Contents:
    """What is alive in the store."""
    keys: dict[tuple[int, bytes], tuple[str, Any, Expiry]] = {}
    fields: dict[tuple[int, bytes], dict[bytes, Expiry]] = {}
    for db, name, type_code, expire_ms, pieces, field_times in live_keys(store, layout, now_ms):
        content = _CONTENTS[type_code](list(pieces))
        keys[db, name] = (TYPE_NAMES[type_code], content, Expiry(expire_ms or -1))
        if times := {field: Expiry(ms) for field, ms in field_times}:
            fields[db, name] = times
    return Contents(keys, fields)


def unfound(store: Store, layout: Layout, now_ms: int) -> Counter[int]:
    """How many keys of each database DBSIZE counts that no command finds: those that are due, and what is declared."""
    counts: Counter[int] = Counter()
    for record, value in metadata_records(store, layout):
        metadata = layout.parse_metadata(value)
        is_due = 0 < metadata.expire_ms <= now_ms
        if is_due or is_counted_without_elements(store, layout, record, metadata):
            counts[layout.parse_metadata_key(record)[0]] += 1
    return counts


def of_oracle(connection: Connection) -> Contents:
    """What the oracle holds; `connection` speaks RESP2 and is left at database 0."""
    keys: dict[tuple[int, bytes], tuple[str, Any, Expiry]] = {}
    fields: dict[tuple[int, bytes], dict[bytes, Expiry]] = {}
    for db in range(DATABASES):
        names = sorted(connection.pipeline([["SELECT", db], ["KEYS", "*"]])[1])
        types = [reply.text.decode() for reply in connection.pipeline([["TYPE", name] for name in names])]
        contents = connection.pipeline([_READS[kind](name) for name, kind in zip(names, types, strict=True)])
        times = connection.pipeline([["PEXPIRETIME", name] for name in names])
        for name, kind, content, expire_ms in zip(names, types, contents, times, strict=True):
            keys[db, name] = (kind, _SHAPES[kind](content), Expiry(expire_ms))
            if kind == "hash" and (field_times := _field_times(connection, name, content[::2])):
                fields[db, name] = field_times
    connection.call("SELECT", 0)
    return Contents(keys, fields)


def _field_times(connection: Connection, name: bytes, fields: list[bytes]) -> dict[bytes, Expiry]:
    times = connection.call("HPEXPIRETIME", name, "FIELDS", len(fields), *fields)
    return {field: Expiry(ms) for field, ms in zip(fields, times, strict=True) if ms >= 0}


def of_payload(payload: bytes) -> tuple[int, Any]:
    """What DUMP gave, in a shape that can be compared."""
    type_code, content = in_order(decode(payload))
    if type_code == HASH:
        content = [(field, value, Expiry(expire_ms or -1)) for field, value, expire_ms in content]
    return type_code, content


def _scored(members: list[bytes], scores: list[float]) -> list[tuple[float, bytes]]:
    return sorted(zip(scores, members, strict=True))


_CONTENTS: Final[dict[int, Callable[[list[bytes]], Any]]] = {
    STRING: lambda pieces: pieces[0],
    LIST: list,
    SET: list,
    HASH: lambda pieces: dict(zip(pieces[::2], pieces[1::2], strict=True)),
    ZSET: lambda pieces: _scored(pieces[::2], list(map(parse_score, pieces[1::2]))),
    STREAM: content_of_engine,
}
"""By type code: what `engine.proof.walk` gives, as a plain value."""

_READS: Final[dict[str, Callable[[bytes], list[bytes | str | float]]]] = {
    "string": lambda name: ["GET", name],
    "list": lambda name: ["LRANGE", name, 0, -1],
    "set": lambda name: ["SMEMBERS", name],
    "hash": lambda name: ["HGETALL", name],
    "zset": lambda name: ["ZRANGE", name, 0, -1, "WITHSCORES"],
    "stream": lambda name: ["XINFO", "STREAM", name, "FULL", "COUNT", 0],
}

_SHAPES: Final[dict[str, Callable[[Any], Any]]] = {
    "string": lambda reply: reply,
    "list": list,
    "set": sorted,
    "hash": lambda reply: dict(zip(reply[::2], reply[1::2], strict=True)),
    # Not sorted: the oracle's own order must be the one that scores and members give.
    "zset": lambda reply: list(zip(map(float, reply[1::2]), reply[::2], strict=True)),
    "stream": content_of_oracle,
}
