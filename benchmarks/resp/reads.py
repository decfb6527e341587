"""The reads of collections among the rows of `benchmarks.resp.commands`, and the collections that they ask for.

    zrank    ZRANK of any member of a sorted set of 100,000
    zcount   ZCOUNT of the members of that set from any score on
    zrange   ZRANGE … BYSCORE LIMIT 0 10: ten members of it from any score on. By index redis-benchmark asks for
             the same ten each time; `benchmarks.resp.data` does not
    hgetall  HGETALL of 100 fields
    lrange   LRANGE of 100 elements
    sinter   SINTER of two sets of 100 members, 50 of them in both

No other row writes to these collections.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

READS: Final[dict[str, tuple[str, ...]]] = {
    "zrank": ("ZRANK", "read:z", "element:__rand_int__"),
    "zcount": ("ZCOUNT", "read:z", "__rand_int__", "+inf"),
    "zrange": ("ZRANGE", "read:z", "__rand_int__", "+inf", "BYSCORE", "LIMIT", "0", "10"),
    "hgetall": ("HGETALL", "read:h"),
    "lrange": ("LRANGE", "read:l", "0", "-1"),
    "sinter": ("SINTER", "read:s1", "read:s2"),
}
"""What redis-benchmark sends, by command."""

WHOLE: Final = frozenset({"hgetall", "lrange", "sinter"})
"""Those with a hundred elements in a reply: a run has a quarter of the requests."""

_ELEMENTS: Final = 100
_AT_ONCE: Final = 1000


def filling(members: int) -> Iterator[list[bytes]]:
    """The commands that make the collections; `members`: of the sorted set, as many as redis-benchmark chooses from."""
    for first in range(0, members, _AT_ONCE):
        some = range(first, min(first + _AT_ONCE, members))
        yield [b"ZADD", b"read:z", *(word for n in some for word in (b"%d" % n, b"element:%012d" % n))]
    names = [b"element:%012d" % number for number in range(_ELEMENTS)]
    yield [b"HSET", b"read:h", *(word for name in names for word in (name, b"VXK"))]
    yield [b"RPUSH", b"read:l", *names]
    yield [b"SADD", b"read:s1", *names]
    yield [b"SADD", b"read:s2", *names[_ELEMENTS // 2 :], *(b"other:%d" % number for number in range(_ELEMENTS // 2))]
