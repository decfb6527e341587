"""The contents of a real server and of a log, in one form, to be compared."""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.ops.verbs import succeed
from tests.real.oracle import Connection, Oracle, SimpleString

Contents = dict[tuple[int, bytes], tuple[str, Any, int | None]]
"""(database, key) -> (type, value, time of death in ms): hashes as pairs, sorted sets with scores, both sorted."""


@contextmanager
def server(options: Sequence[str] = (), binary: str = "") -> Iterator[Oracle]:
    """A server of the test alone. Not in pytest's directory: the path of a Unix socket has to be short."""
    with (
        tempfile.TemporaryDirectory(prefix="source-") as directory,
        Oracle(Path(directory), options, binary) as source,
    ):
        yield source


def of_server(connection: Connection, databases: Sequence[int] = (0,)) -> Contents:
    """Everything in some databases of a server, but for types that slotlog does not have."""
    found: Contents = {}
    for db in databases:
        connection.call("SELECT", db)
        names = connection.call("KEYS", "*")
        for start in range(0, len(names), 500):
            some = names[start : start + 500]
            kinds = [kind.text.decode() for kind in connection.pipeline(("TYPE", name) for name in some)]
            lives = connection.pipeline(("PEXPIRETIME", name) for name in some)
            asked = [
                (*_READS.get(kind, ("GET",)), name, *_RANGES.get(kind, ()))
                for kind, name in zip(kinds, some, strict=True)
            ]
            values = connection.pipeline(asked)
            for name, kind, life_ms, value in zip(some, kinds, lives, values, strict=True):
                if kind in _READS and life_ms != -2 and value:
                    found[db, name] = (kind, _shaped(kind, value), life_ms if life_ms >= 0 else None)
    connection.call("SELECT", 0)
    return found


def replayed(directory: Path, *options: object) -> int:
    """Make the state that the log comes to, and say how many records there are in it; `directory` is not there yet."""
    partitions = json.loads(succeed("replay", "--to", directory, *options, "--json"))["partitions"]
    assert [0] * len(partitions) == [each["not_applied"]["rejected"] for each in partitions]
    assert [0] * len(partitions) == [each["not_applied"]["dead_letters"] for each in partitions]
    return sum(each["next_offset"] for each in partitions)


def of_log(directory: Path, *options: object) -> Contents:
    """Everything in the state that the log comes to; `directory` is for the state, and not there yet."""
    replayed(directory, *options)
    return of_state(directory, *_without(options, "--data"))


def of_state(directory: Path, *options: object) -> Contents:
    """Everything in a state."""
    found: Contents = {}
    for line in succeed("dump", "--data", directory, *options).splitlines():
        key = json.loads(line)
        value = _bytes(key["value"])
        if key["type"] in {"hash", "zset"}:
            value = sorted((name, of) for name, of in value)
        elif key["type"] == "set":
            value = sorted(value)
        found[key["db"], _bytes(key["key"])] = (key["type"], value, key["expire_ms"])
    return found


def differing(expected: Contents, found: Contents) -> list[Any]:
    """The keys that differ, with what they should be and what they are: less to read than all of them."""
    return [
        (key, expected.get(key), found.get(key))
        for key in sorted(expected.keys() | found.keys())
        if expected.get(key) != found.get(key)
    ]


def fill(connection: Connection) -> None:
    """Keys of every type and encoding, odd names and lives, in databases 0 and 3."""
    calls: list[tuple[Any, ...]] = [
        ("SET", "text", "v"),
        ("SET", "", "an empty key"),
        ("SET", b"\xff\x00\r\n", b"\x00\xfe" * 40),
        ("SET", "number", 12345),
        ("SET", "long", "ab" * 40_000),
        ("SET", "dying", "v", "PXAT", 9_000_000_000_000),
        ("SETBIT", "bits", 70_000, 1),
        ("PFADD", "hll", *range(1000)),
        ("RPUSH", "list", "a", 1, -5, b"\xff", "x" * 100),
        ("RPUSH", "long list", *(f"element {n}" for n in range(2000))),
        ("SADD", "numbers", 1, 2, 70_000),
        ("SADD", "set", "a", 1, "b"),
        ("SADD", "large set", *(f"member {n}" for n in range(1000))),
        ("HSET", "hash", "f", "v", "g", 1),
        ("HSET", "large hash", *(word for n in range(1000) for word in (f"field {n}", n))),
        ("PEXPIREAT", "large hash", 9_100_000_000_000),
        ("ZADD", "zset", 1.5, "a", "-inf", "b", "inf", "c", 3, "d"),
        ("ZADD", "large zset", *(word for n in range(1000) for word in (n / 7, f"member {n}"))),
        ("SELECT", 3),
        ("SET", "text", "of database 3"),
        ("LPUSH", "list", "of database 3"),
        ("SELECT", 0),
    ]
    for reply in connection.pipeline(calls):
        assert isinstance(reply, int | SimpleString), reply


_READS: Final = {
    "string": ("GET",),
    "list": ("LRANGE",),
    "set": ("SMEMBERS",),
    "hash": ("HGETALL",),
    "zset": ("ZRANGE",),
}
_RANGES: Final = {"list": (0, -1), "zset": (0, -1, "WITHSCORES")}


def _shaped(kind: str, value: Any) -> Any:
    """A reply as it is compared: pairs for hashes and sorted sets; sorted where there is no order."""
    if kind == "hash":
        return sorted(zip(value[::2], value[1::2], strict=True))
    if kind == "zset":
        return sorted((member, float(score)) for member, score in zip(value[::2], value[1::2], strict=True))
    return sorted(value) if kind == "set" else value


def _bytes(value: Any) -> Any:
    """What `dump` prints, with its texts as bytes."""
    if isinstance(value, str):
        return float(value) if value in {"inf", "-inf"} else value.encode()
    if isinstance(value, dict):
        return base64.b64decode(value["base64"])
    if isinstance(value, list):
        return [_bytes(each) for each in value]
    return value


def _without(options: Sequence[object], option: str) -> list[object]:
    """The options without one and its value."""
    words = list(options)
    if option in words:
        at = words.index(option)
        del words[at : at + 2]
    return words
