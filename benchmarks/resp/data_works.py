"""The rows of `benchmarks.resp.data`: the stored values, and the measured commands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from random import Random
from typing import Final, NamedTuple

from benchmarks.applying.workloads import SEED

Command = list[bytes]

PIPELINED: Final = 16
POPS: Final = "zpopmin"
"""The kind whose commands are undone after each run."""

SORTED_SETS: Final = frozenset({"zrank", "zrange", "zcount", "zlimit", "zadd", POPS})
HASHES: Final = frozenset({"hget", "hset"})
"""Kinds that have a row for each number of members or fields."""

_FILLED_AT_ONCE: Final = 1000
_APPENDED_AT_ONCE: Final = 1 << 20
_RANGE: Final = 10
_WHOLE_COMMANDS_MAX: Final = 4  # of a run, as one may take a second
_ELEMENTS_OF_A_COUNT: Final = 100  # of the list and the others, for each key that PFCOUNT is given


@dataclass(frozen=True, slots=True)
class DataSize:
    """How much is measured.

    Attributes:
        members: of the sorted sets, smallest first.
        elements: of the hash, the list and the sets.
        bitmap_bytes: of the bitmap.
        commands: of a run, at most.
        seconds: after which a run of slotlog ends, with fewer commands; its rival does as many.
        pairs: runs of each server.
    """

    members: Sequence[int]
    elements: int
    bitmap_bytes: int
    commands: int
    seconds: float
    pairs: int


DATA_LARGE: Final = DataSize((1_000, 10_000, 100_000, 1_000_000), 100_000, 64 << 20, 16_000, 2.0, 5)
DATA_SMOKE: Final = DataSize((100, 1_000), 500, 64 << 10, 32, 1.0, 1)


class Work(NamedTuple):
    """What a row measures.

    Attributes:
        name: such as `zrank_1000`.
        kind: what growth compares, such as `zrank`.
        make: a command, drawn with a random generator.
        lines: of each reply.
        most: commands of a run.
        depths: commands in a pipeline.
    """

    name: str
    kind: str
    make: Callable[[Random], Command]
    lines: int
    most: int
    depths: Sequence[int] = (1, PIPELINED)


def kinds(size: DataSize) -> list[list[Work]]:
    """All rows by kind, the smallest size of each kind first."""
    return [list(group) for _, group in groupby(_works(size), key=attrgetter("kind"))]


def _works(size: DataSize) -> Iterator[Work]:
    many = size.commands
    few = 1 + 2 * _RANGE
    sorted_sets = ("zrank", 1, _zrank), ("zrange", few, _zrange), ("zcount", 1, _zcount), ("zlimit", few, _zlimit)
    for kind, lines, make in (*sorted_sets, ("zadd", 1, _zadd)):
        for members in size.members:
            yield Work(f"{kind}_{members}", kind, make(members), lines, many)
    for members in size.members:
        key = b"z:%d" % members
        yield Work(f"{POPS}_{members}", POPS, _always([b"ZPOPMIN", key]), 5, min(many, members // 4))
    of_hashes: tuple[tuple[str, int, Callable[[int], Callable[[Random], Command]]], ...]
    of_hashes = ("hget", 2, _hget), ("hset", 1, _hset)
    for kind, lines, make_of in of_hashes:
        for fields in size.members:
            yield Work(f"{kind}_{fields}", kind, make_of(fields), lines, many)
    count = size.elements
    yield Work(f"hgetall_{count}", "hgetall", _always([b"HGETALL", b"h"]), 1 + 4 * count, many, (1,))
    yield Work(f"lrange_{count}", "lrange", _always([b"LRANGE", b"l", b"0", b"-1"]), 1 + 2 * count, many, (1,))
    yield Work(f"sinter_{count}", "sinter", _always([b"SINTER", b"a", b"b"]), 1 + 2 * (count - count // 2), many, (1,))
    bits = size.bitmap_bytes * 8
    yield Work(
        f"setbit_{size.bitmap_bytes}",
        "setbit",
        lambda random: [b"SETBIT", b"bits", b"%d" % random.randrange(bits), b"%d" % random.randrange(2)],
        1,
        many,
    )
    for kind, lines, command in _whole(size):
        yield Work(f"{kind}_{count}", kind, _always(command), lines, min(many, _WHOLE_COMMANDS_MAX), (1,))


def _whole(size: DataSize) -> Iterator[tuple[str, int, Command]]:
    """Commands that take much of the data at once, and the lines of their replies: kinds of one size each."""
    yield "copy", 1, [b"COPY", b"h", b"h2", b"REPLACE"]
    yield "sunionstore", 1, [b"SUNIONSTORE", b"c", b"a", b"b"]
    yield "sort", 1 + 2 * _RANGE, [b"SORT", b"l", b"BY", b"weight:*", b"LIMIT", b"0", b"%d" % _RANGE]
    yield "pfcount", 1, [b"PFCOUNT", *[b"p"] * (size.elements // _ELEMENTS_OF_A_COUNT)]
    yield "bitop", 1, [b"BITOP", b"NOT", b"bits2", b"bits"]


def drawn(work: Work, round_: int) -> list[Command]:
    """The commands of one run: the same ones for everybody, others in each round."""
    random = Random(f"{work.name} {round_}")
    return [work.make(random) for _ in range(work.most)]


def put_back(work: Work, popped: Sequence[tuple[bytes, bytes]]) -> Command:
    """The command that undoes pops, given as (member, score)."""
    return [b"ZADD", work.make(Random(SEED))[1], *(word for member, score in popped for word in (score, member))]


def _zrank(members: int) -> Callable[[Random], Command]:
    return lambda random: [b"ZRANK", b"z:%d" % members, _member(random.randrange(members))]


def _zrange(members: int) -> Callable[[Random], Command]:
    def make(random: Random) -> Command:
        start = members // 2 + random.randrange(members // 8)
        return [b"ZRANGE", b"z:%d" % members, b"%d" % start, b"%d" % (start + _RANGE - 1)]

    return make


def _zcount(members: int) -> Callable[[Random], Command]:
    def make(random: Random) -> Command:
        bounds = sorted((random.randrange(members), random.randrange(members)))
        return [b"ZCOUNT", b"z:%d" % members, *(b"%d" % bound for bound in bounds)]

    return make


def _zlimit(members: int) -> Callable[[Random], Command]:
    def make(random: Random) -> Command:
        offset = members // 4 + random.randrange(members // 2)
        words = [b"-inf", b"+inf", b"LIMIT", b"%d" % offset, b"%d" % _RANGE]
        return [b"ZRANGEBYSCORE", b"z:%d" % members, *words]

    return make


def _zadd(members: int) -> Callable[[Random], Command]:
    def make(random: Random) -> Command:
        score = b"%d" % random.randrange(members)
        return [b"ZADD", b"z:%d" % members, score, _member(random.randrange(members))]

    return make


def _hget(fields: int) -> Callable[[Random], Command]:
    return lambda random: [b"HGET", b"h:%d" % fields, _field(random.randrange(fields))]


def _hset(fields: int) -> Callable[[Random], Command]:
    def make(random: Random) -> Command:
        return [b"HSET", b"h:%d" % fields, _field(random.randrange(fields)), b"value:%08d" % random.randrange(fields)]

    return make


def _always(command: Command) -> Callable[[Random], Command]:
    return lambda _: command


def _member(number: int) -> bytes:
    return b"member:%08d" % number


def _field(number: int) -> bytes:
    return b"field:%08d" % number


def filling(size: DataSize, works: Iterable[Sequence[Work]]) -> Iterator[Command]:
    """The commands that make what the rows in `works`, by kind, need."""
    asked = {kind[0].kind for kind in works}
    if asked & SORTED_SETS:
        for members in size.members:
            for part in _parts(members):
                yield [b"ZADD", b"z:%d" % members, *(word for n in part for word in (b"%d" % n, _member(n)))]
    if asked & HASHES:
        for fields in size.members:
            for part in _parts(fields):
                yield [b"HSET", b"h:%d" % fields, *(word for n in part for word in (_field(n), b"value:%08d" % n))]
    if asked - SORTED_SETS - HASHES:
        yield from _filling_others(size)


def _filling_others(size: DataSize) -> Iterator[Command]:
    for part in _parts(size.elements):
        yield [b"HSET", b"h", *(word for n in part for word in (_field(n), b"value:%08d" % n))]
        yield [b"RPUSH", b"l", *(b"element:%08d" % n for n in part)]
        yield [b"SADD", b"a", *map(_member, part)]
        yield [b"SADD", b"b", *(_member(n + size.elements // 2) for n in part)]
        yield [b"PFADD", b"p", *map(_member, part)]
    random = Random(SEED)
    for at in range(0, size.bitmap_bytes, _APPENDED_AT_ONCE):
        yield [b"APPEND", b"bits", random.randbytes(min(_APPENDED_AT_ONCE, size.bitmap_bytes - at))]


def _parts(count: int) -> Iterator[range]:
    numbers = range(count)
    return (numbers[at : at + _FILLED_AT_ONCE] for at in range(0, count, _FILLED_AT_ONCE))
