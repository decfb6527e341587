"""Random commands on streams: few ids, groups and consumers, so that much of it meets."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final


def _id(random: Random) -> bytes:
    return b"%d-%d" % (1 + (random.randrange(8) == 0), random.randrange(10))


def _new_id(random: Random) -> bytes:
    return random.choice((*[b"1-*"] * 9, b"2-*", _id(random), b"*" if random.randrange(6) == 0 else b"1-*"))


def _ids(random: Random) -> list[bytes]:
    return [_id(random) for _ in range(random.randint(1, 4))]


def _counted(random: Random) -> list[bytes]:
    ids = _ids(random)
    return [random.choice((b"KEEPREF", b"DELREF", b"ACKED", b"ACKED")), b"IDS", b"%d" % len(ids), *ids]


def _trim(random: Random) -> list[bytes]:
    how = random.choice(([b"MAXLEN", b"%d" % random.randrange(6)], [b"MINID", _id(random)]))
    return [*how, *random.choice(([], [b"DELREF"], [b"ACKED"]))]


def _group(random: Random) -> bytes:
    return random.choice((b"crew", b"watch"))


def _consumer(random: Random) -> bytes:
    return random.choice((b"ann", b"bob", b"cy"))


def _read(random: Random) -> list[bytes]:
    how = random.choice(([b"COUNT", b"2"], [b"COUNT", b"9"], [b"NOACK", b"NOACK"]))
    return [
        b"GROUP",
        _group(random),
        _consumer(random),
        *how,
        b"STREAMS",
        b"x",
        random.choice((b">", b">", _id(random))),
    ]


STREAMS: Final[dict[bytes, Callable[[Random], list[Any]]]] = {
    b"XADD": lambda r: [b"x", *r.choice(([], [], [], _trim(r), [b"NOMKSTREAM"])), _new_id(r), b"field", _id(r)],
    b"XDEL": lambda r: [b"x", *_ids(r)],
    b"XTRIM": lambda r: [b"x", *_trim(r)],
    b"XSETID": lambda r: [b"x", _id(r)],
    b"XDELEX": lambda r: [b"x", *_counted(r)],
    b"XACKDEL": lambda r: [b"x", _group(r), *_counted(r)],
    b"XGROUP|CREATE": lambda r: [
        b"x",
        _group(r),
        r.choice((b"0", b"0", b"$", _id(r))),
        *[b"MKSTREAM"] * r.randrange(2),
    ],
    b"XGROUP|SETID": lambda r: [b"x", _group(r), r.choice((b"0", b"$", _id(r)))],
    b"XGROUP|DESTROY": lambda r: [b"x", _group(r)],
    b"XGROUP|CREATECONSUMER": lambda r: [b"x", _group(r), _consumer(r)],
    b"XGROUP|DELCONSUMER": lambda r: [b"x", _group(r), _consumer(r)],
    b"XREADGROUP": _read,
    b"XACK": lambda r: [b"x", _group(r), *_ids(r)],
    b"XCLAIM": lambda r: [
        *(b"x", _group(r), _consumer(r), r.choice((b"0", b"500")), *_ids(r)),
        *r.choice(([], [b"FORCE"], [b"JUSTID"])),
    ],
    b"XAUTOCLAIM": lambda r: [
        *(b"x", _group(r), _consumer(r), r.choice((b"0", b"500")), b"0", b"COUNT", b"%d" % r.randint(1, 3)),
        *r.choice(([], [b"JUSTID"])),
    ],
}
