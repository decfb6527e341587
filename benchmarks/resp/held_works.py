"""The rows of `benchmarks.resp.held`: commands over very many elements, and their data.

A command that a server writes is measured on the same state each time: it stores what it stored before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from tests.real.oracle import Connection, request

Words = list[Any]

_AT_ONCE: Final = 5_000
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class HeldSize:
    """How much there is, and how often each command is sent.

    Attributes:
        keys: small ones, for what walks over all of them.
        elements: of each collection.
        arguments: of a command that names many keys or elements.
        most_arguments: of the largest MSET; its event stays below 8 MiB.
        string_bytes: of a large string.
        text_bytes: of each of the two texts of LCS, which takes the product of both.
        hyperloglogs: dense ones.
        runs: of each command.
    """

    keys: int
    elements: int
    arguments: int
    most_arguments: int
    string_bytes: int
    text_bytes: int
    hyperloglogs: int
    runs: int


HELD_LARGE: Final = HeldSize(500_000, 200_000, 100_000, 500_000, 64 * _MIB, 10_000, 1_000, 3)
HELD_SMOKE: Final = HeldSize(400, 200, 100, 200, 65_536, 200, 5, 1)


@dataclass(frozen=True, slots=True)
class Work:
    """One command to measure.

    Attributes:
        name: of the row.
        commands: one, or those of a transaction, sent together.
        before: commands that are sent before each run and not measured.
        payload_of: the key whose DUMP is one more argument, behind the others; empty for none.
    """

    name: str
    commands: list[Words]
    before: list[Words] = field(default_factory=list)
    payload_of: str = ""

    def requests(self, connection: Connection) -> bytes:
        """What is sent, as bytes."""
        if not self.payload_of:
            return b"".join(map(request, self.commands))
        return request([*self.commands[0], connection.call("DUMP", self.payload_of)])


def works(size: HeldSize) -> list[Work]:
    """All commands of a standalone server."""
    return [*_walks(size), *_stores(size), *_arguments(size), *_strings(size), *_server(size)]


def cluster_works(size: HeldSize) -> list[Work]:
    """Those that only a cluster has."""
    return [
        _one("cluster_countkeysinslot", "CLUSTER", "COUNTKEYSINSLOT", _SLOT_OF_T),
        _one("cluster_getkeysinslot", "CLUSTER", "GETKEYSINSLOT", _SLOT_OF_T, size.arguments),
    ]


def filling(size: HeldSize) -> Iterator[Words]:
    """What makes the keys of `works`."""
    yield from _many("MSET", [], size.keys, lambda number: (f"key:{number}", number))
    for key in ("s1", "s2"):
        shift = size.elements // 2 if key == "s2" else 0
        yield from _many("SADD", [key], size.elements, partial(_element, shift))
    for key in ("z1", "z2"):
        yield from _many("ZADD", [key], size.elements, lambda number: (number * 7919 % size.elements, f"e:{number}"))
    yield from _many("RPUSH", ["l"], size.elements, lambda number: (number * 7919 % size.elements,))
    yield from _many("HSET", ["h"], size.elements, lambda number: (f"field:{number}", "value"))
    yield from _many("GEOADD", ["g"], size.elements, lambda n: (n % 360 * 0.4, n % 1000 * 0.05, f"place:{n}"))
    for key in ("b1", "b2"):
        yield ["SET", key, b"\x55" * min(size.string_bytes, 4 * _MIB)]
        for at in range(4 * _MIB, size.string_bytes, 4 * _MIB):
            yield ["SETRANGE", key, at, b"\x55" * 4 * _MIB]
    yield ["MSET", "t1", "abcdefghij" * (size.text_bytes // 10), "t2", "jaibhcgdfe" * (size.text_bytes // 10)]
    elements = [f"element:{number}" for number in range(min(size.elements, 3000))]
    yield ["PFADD", "p:0", *elements]
    for number in range(1, size.hyperloglogs):
        yield ["COPY", "p:0", f"p:{number}"]


def cluster_filling(size: HeldSize) -> Iterator[Words]:
    """What makes the keys of `cluster_works`, all in one slot."""
    return _many("MSET", [], size.arguments, lambda number: (f"{{t}}{number}", "v"))


_SLOT_OF_T: Final = 15891


def _one(name: str, *words: Any) -> Work:
    return Work(name, [list(words)])


def _walks(size: HeldSize) -> list[Work]:
    """Reads of a whole keyspace or collection."""
    return [
        _one("keys", "KEYS", "*9"),
        _one("scan_count", "SCAN", 0, "COUNT", size.keys),
        _one("hgetall", "HGETALL", "h"),
        _one("smembers", "SMEMBERS", "s1"),
        _one("lrange", "LRANGE", "l", 0, -1),
        _one("zrange", "ZRANGE", "z1", 0, -1, "WITHSCORES"),
        _one("sscan_count", "SSCAN", "s1", 0, "COUNT", size.elements),
        _one("sinter", "SINTER", "s1", "s2"),
        _one("sintercard", "SINTERCARD", 2, "s1", "s2"),
        _one("sort", "SORT", "l"),
        _one("sort_alpha", "SORT", "l", "ALPHA", "LIMIT", 0, 10),
        _one("sort_by", "SORT", "l", "BY", "key:*", "GET", "key:*"),
        _one("geosearch", "GEOSEARCH", "g", "FROMLONLAT", 70, 25, "BYRADIUS", 20_000, "km", "ASC", "WITHDIST"),
        _one("dump", "DUMP", "z1"),
        _one("memory_usage", "MEMORY", "USAGE", "h", "SAMPLES", 0),
    ]


def _stores(size: HeldSize) -> list[Work]:
    """Writes of a whole collection."""
    part = ["ZRANGESTORE", "part", "z1", 0, size.arguments]  # a payload below 8 MiB
    return [
        _one("sunionstore", "SUNIONSTORE", "d", "s1", "s2"),
        _one("zunionstore", "ZUNIONSTORE", "d", 2, "z1", "z2"),
        _one("zrangestore", "ZRANGESTORE", "d", "z1", 0, -1),
        _one("sort_store", "SORT", "l", "STORE", "d"),
        _one("copy", "COPY", "h", "d", "REPLACE"),
        Work("rename", [["RENAME", "r", "d"]], [["COPY", "s1", "r", "REPLACE"]]),
        Work("del", [["DEL", "d"]], [["COPY", "h", "d", "REPLACE"]]),
        Work("restore", [["RESTORE", "d", 0]], [["DEL", "d"], part], "part"),
    ]


def _arguments(size: HeldSize) -> list[Work]:
    """Commands that name very many keys or elements."""
    names = [f"key:{number}" for number in range(size.arguments)]
    some = [word for number in range(size.arguments) for word in (f"m{number}", "v")]
    most = [word for number in range(size.most_arguments) for word in (f"m{number}", "v")]
    sets = [["SET", *some[at : at + 2]] for at in range(0, len(some), 2)]
    numbers = range(size.arguments)
    return [
        _one("mget", "MGET", *names),
        _one("exists", "EXISTS", *names),
        _one("mset", "MSET", *some),
        _one(f"mset_{size.most_arguments}", "MSET", *most),
        Work("del_keys", [["DEL", *some[::2]]], [["MSET", *some]]),
        Work("exec", [["MULTI"], *sets, ["EXEC"]]),
        Work("sadd", [["SADD", "d", *numbers]], [["DEL", "d"]]),
        Work("rpush", [["RPUSH", "d", *numbers]], [["DEL", "d"]]),
        Work("zadd", [["ZADD", "d", *(word for number in numbers for word in (number, number))]], [["DEL", "d"]]),
        _one("smismember", "SMISMEMBER", "s1", *(f"element:{number}" for number in numbers)),
    ]


def _strings(size: HeldSize) -> list[Work]:
    """Commands over many bytes."""
    sketches = [f"p:{number}" for number in range(size.hyperloglogs)]
    return [
        _one("get", "GET", "b1"),
        _one("bitcount", "BITCOUNT", "b1"),
        _one("bitop_not", "BITOP", "NOT", "d", "b1"),
        _one("bitop_xor", "BITOP", "XOR", "d", "b1", "b2"),
        _one("lcs_len", "LCS", "t1", "t2", "LEN"),
        _one("pfcount", "PFCOUNT", *sketches),
        _one("pfmerge", "PFMERGE", "merged", *sketches),
    ]


def _server(_size: HeldSize) -> list[Work]:
    """What looks at all there is beside the commands of a client."""
    return [_one("debug_digest", "DEBUG", "DIGEST"), _one("debug_reload", "DEBUG", "RELOAD")]


def _element(shift: int, number: int) -> tuple[str]:
    return (f"element:{number + shift}",)


def _many(name: str, head: Words, count: int, words: Callable[[int], tuple[Any, ...]]) -> Iterator[Words]:
    for start in range(0, count, _AT_ONCE):
        numbers = range(start, min(start + _AT_ONCE, count))
        yield [name, *head, *(word for number in numbers for word in words(number))]
