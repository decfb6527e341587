"""Exceptions in which slotlog's bytes may differ from the oracle's, each with its reason and check.

docs/differences.md has them as a table, made from `EXCEPTIONS`. Whatever is not here has to be equal byte by byte.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from engine.commands.options import read_option
from engine.commands.registry import SPECS
from tests.differential import loose
from tests.differential.contents import of_payload
from tests.differential.streams import untimed, with_their_lag
from tests.differential.versions import are_rounded, is_of_redis
from tests.differential.vocabulary import EXACT_FROM_MS, EXACT_UNTIL_MS, SPREAD_S
from tests.wire.frames import bulk, parts

Request = tuple[bytes, ...]


class Reply(NamedTuple):
    """The two replies to one request. `in_listpacks`: the oracle holds its collections in their small encodings."""

    request: Request
    oracle: bytes
    slotlog: bytes
    in_listpacks: bool

    @property
    def name(self) -> bytes:
        """Of the command; see `name_of`."""
        return name_of(self.request)


class Permitted(NamedTuple):
    """One exception: its name, what the documentation says about it, and whether a difference is of its kind."""

    name: str
    where: str
    why: str
    covers: Callable[[Reply], bool]


def name_of(request: Request) -> bytes:
    """The command's name in upper case, with that of its subcommand where the engine has it: `OBJECT|ENCODING`."""
    container = b"|".join(request[:2]).upper()
    return container if container in SPECS else request[0].upper()


_UNORDERED: Final = frozenset({b"HKEYS", b"HVALS", b"SMEMBERS", b"KEYS", b"SUNION", b"SINTER", b"SDIFF"})
_SCANS: Final = {b"SCAN": b"", b"SSCAN": b"", b"HSCAN": b"NOVALUES", b"ZSCAN": b"NOSCORES"}


def _unordered(reply: Reply) -> bool:
    """The same elements, or the same pairs, in whatever order."""
    expected, actual = parts(reply.oracle), parts(reply.slotlog)
    if reply.oracle[:1] != reply.slotlog[:1] or len(expected) != len(actual) or reply.oracle.startswith(b"-"):
        return False
    if reply.name in _SCANS:
        in_pairs = _SCANS[reply.name] not in {b"", *map(read_option, reply.request)}
        return expected[:1] == actual[:1] and _same_elements(parts(expected[1]), parts(actual[1]), in_pairs=in_pairs)
    if reply.name == b"HGETALL":
        return _same_elements(expected, actual, in_pairs=True)
    if reply.name in loose.SORTS and loose.is_open_sort(list(reply.request)):
        return b"LIMIT" in map(read_option, reply.request) or _same_elements(expected, actual, in_pairs=False)
    return reply.name in _UNORDERED and _same_elements(expected, actual, in_pairs=False)


def _foreign_cursor(reply: Reply) -> bool:
    """A scan that goes on where none stopped: any reply that is not an error."""
    if reply.name not in _SCANS or b"-" in (reply.oracle[:1], reply.slotlog[:1]):
        return False
    cursor = reply.request[1 if reply.name == b"SCAN" else 2]
    return cursor.strip(b" +-0") != b""


def _same_elements(expected: Sequence[bytes], actual: Sequence[bytes], *, in_pairs: bool) -> bool:
    if not in_pairs:
        return sorted(expected) == sorted(actual)
    sides = [sorted(zip(side[::2], side[1::2], strict=True)) for side in (expected, actual)]
    return sides[0] == sides[1]


def _of_memory(reply: Reply) -> bool:
    """What `tests.differential.loose` says about encodings, numbers of bytes and of references."""
    ours, theirs = _plain(reply.slotlog), _plain(reply.oracle)
    return loose.is_loose(reply.name, ours) and loose.holds(reply.name, list(reply.request), ours, [theirs])


def _plain(frame: bytes) -> bytes | int | None:
    return int(frame[1:]) if frame.startswith(b":") else bulk(frame)


def _payload(reply: Reply) -> bool:
    """Two payloads of the same content."""
    ours, theirs = bulk(reply.slotlog), bulk(reply.oracle)
    return reply.name == b"DUMP" and bool(ours and theirs) and of_payload(ours or b"") == of_payload(theirs or b"")


_IN_TRANSACTION: Final = b"-ERR Command not allowed inside a transaction\r\n"
_IDS: Final = frozenset((b"-ERR Invalid client ID\r\n", b"-ERR client-id should be greater than 0\r\n"))


def _of_redis(reply: Reply) -> bool:
    """What `tests.differential.versions` says, and the same of the server's own commands."""
    if reply.request[0].upper() == b"CLIENT" and reply.slotlog in _IDS:
        return reply.oracle == b"-ERR syntax error\r\n"
    if reply.slotlog == _IN_TRANSACTION:
        return reply.oracle.endswith(b"' not allowed inside a transaction\r\n")
    return is_of_redis(reply.request, reply.oracle, reply.slotlog)


_TIME_UNITS_MS: Final = {
    of_fields + name: unit_ms
    for of_fields in (b"", b"H")
    for name, unit_ms in ((b"TTL", 1000), (b"PTTL", 1), (b"EXPIRETIME", 1000), (b"PEXPIRETIME", 1))
}


def _two_clocks(reply: Reply) -> bool:
    """Two times that are near each other; a moment that a command gave has to be the same on both sides."""
    sides = [parts(frame) or [frame] for frame in (reply.oracle, reply.slotlog)]
    if reply.name not in _TIME_UNITS_MS or len(sides[0]) != len(sides[1]):
        return False
    return all(
        theirs == ours
        or (theirs[:1] == ours[:1] == b":" and are_rounded(reply.name, int(theirs[1:]), int(ours[1:])))
        or (theirs[:1] == ours[:1] == b":" and _near(reply.name, int(theirs[1:]), int(ours[1:])))
        for theirs, ours in zip(*sides, strict=True)
    )


def _moments_of_streams(reply: Reply) -> bool:
    """The same but for moments, of which both are known or both are not, and the lag behind what was trimmed."""
    theirs = untimed(reply.name, _tree(reply.oracle))
    ours = untimed(reply.name, _tree(reply.slotlog))
    return bool(theirs != _tree(reply.oracle) and theirs == with_their_lag(theirs, ours))


def _tree(frame: bytes) -> Any:
    """A frame as a value, a map as a flat list."""
    if frame[:1] in {b"*", b"~", b"%"} and frame[1:3] != b"-1":
        return list(map(_tree, parts(frame)))
    return _plain(frame) if frame[:1] in {b":", b"$"} else frame


def _near(name: bytes, expected: int, actual: int) -> bool:
    unit_ms = _TIME_UNITS_MS[name]
    exact = name.endswith(b"EXPIRETIME") and EXACT_FROM_MS <= actual * unit_ms < EXACT_UNTIL_MS
    return expected >= 0 and actual >= 0 and not exact and abs(expected - actual) * unit_ms <= SPREAD_S * 1000


def _minus_zero(reply: Reply) -> bool:
    """The oracle's large sorted sets keep the sign of a zero score."""
    if reply.in_listpacks or not _is_of_sorted_sets(reply):
        return False
    return _without_minus_zero(reply.oracle) == _without_minus_zero(reply.slotlog)


def _open_range(reply: Reply) -> bool:
    """By member over different scores, or a negative offset, in a large sorted set: only refusals are the same."""
    if reply.in_listpacks or not _is_of_sorted_sets(reply) or b"-" in (reply.oracle[:1], reply.slotlog[:1]):
        return False
    words = [read_option(word) for word in reply.request]
    if any(b"LEX" in word for word in words):
        return True
    return b"LIMIT" in words and words[words.index(b"LIMIT") :][1:2] < [b"0"]


def _digits(reply: Reply) -> bool:
    """The same members, whose scores are the same numbers."""
    if reply.in_listpacks or reply.name != b"ZSCAN":
        return False
    sides = [list(map(bulk, parts(parts(frame)[1]))) for frame in (reply.oracle, reply.slotlog)]
    scored = [
        {member: float(score or b"nan") for member, score in zip(side[::2], side[1::2], strict=True)} for side in sides
    ]
    return scored[0] == scored[1] and len(sides[0]) == len(sides[1])


_HELLO_VALUES: Final = frozenset({b"$6\r\nserver\r\n", b"$7\r\nversion\r\n", b"$2\r\nid\r\n", b"$7\r\nmodules\r\n"})


def _greeting(reply: Reply) -> bool:
    """The same fields in the same order, with other values of four."""
    expected, actual = parts(reply.oracle), parts(reply.slotlog)
    if not is_greeting(reply.oracle) or len(expected) != len(actual):
        return False
    return reply.oracle[:1] == reply.slotlog[:1] and all(
        theirs == ours or (at % 2 == 1 and expected[at - 1] in _HELLO_VALUES)
        for at, (theirs, ours) in enumerate(zip(expected, actual, strict=True))
    )


def _greeting_in_transaction(reply: Reply) -> bool:
    """As many replies, those of HELLO in the same places."""
    expected, actual = (list(map(is_greeting, parts(frame))) for frame in (reply.oracle, reply.slotlog))
    return reply.name == b"EXEC" and any(expected) and expected == actual


def is_greeting(frame: bytes) -> bool:
    """Whether this is what HELLO gives."""
    return parts(frame)[:1] == [b"$6\r\nserver\r\n"]


def _is_of_sorted_sets(reply: Reply) -> bool:
    spec = SPECS.get(reply.name)
    return spec is not None and spec.group == "sorted-set"


def _without_minus_zero(frame: bytes) -> bytes:
    return frame.replace(b"$2\r\n-0\r\n", b"$1\r\n0\r\n").replace(b",-0\r\n", b",0\r\n")


EXCEPTIONS: Final = (
    Permitted(
        "unordered",
        "`HGETALL`, `HKEYS`, `HVALS`, `SMEMBERS`, `SUNION`, `SINTER`, `SDIFF`, `KEYS`, the four scans, and `SORT` of a "
        "set that stays as it is or of texts that compare as equal",
        "Redis gives them in no order: the same ones are there, ours in the order of their bytes (those of a small "
        "sorted set by score); a scan is made whole",
        _unordered,
    ),
    Permitted(
        "cursors",
        "`SCAN`, `HSCAN`, `SSCAN`, `ZSCAN` from a cursor that no scan gave",
        "what a cursor means is each server's own affair",
        _foreign_cursor,
    ),
    Permitted(
        "payload",
        "`DUMP`",
        "the payload is another one with the same content, which Redis chooses by how it holds the value",
        _payload,
    ),
    Permitted(
        "memory",
        "`OBJECT ENCODING`, `OBJECT REFCOUNT`, `MEMORY USAGE`",
        "they tell of Redis' memory: an encoding is one that a Redis may have chosen, a number of bytes is a number",
        _of_memory,
    ),
    Permitted(
        "two clocks",
        "`TTL`, `PTTL`, `EXPIRETIME`, `PEXPIRETIME`, and those of fields (`HTTL`, …), after a relative time",
        "the two servers read their clocks one after the other; a time that was given as a moment is the same on both",
        _two_clocks,
    ),
    Permitted(
        "moments of streams",
        "`XINFO`, `XPENDING`: when consumers were seen, and how long an entry is pending; Redis' tree; a group's lag",
        "the two servers read their clocks one after the other; a consumer that asks in vain is seen in Redis alone; "
        "slotlog has no radix tree; its lag leaves out what was trimmed, as in Redis 7.4 and not in Valkey 9.1.2",
        _moments_of_streams,
    ),
    Permitted(
        "minus zero",
        "scores of a large sorted set",
        "Redis' large sorted sets keep the sign of a score of `-0`, its small ones and ours do not",
        _minus_zero,
    ),
    Permitted(
        "digits",
        "`ZSCAN` of a large sorted set",
        "Redis prints 0.1 with 17 digits there, but not in a small one, nor in any other command: we never do",
        _digits,
    ),
    Permitted(
        "open ranges",
        "`BYLEX` over different scores and a negative `LIMIT` offset, on a large sorted set",
        "Redis answers such a range in one way for small sorted sets, as we do, and in another for large ones",
        _open_range,
    ),
    Permitted(
        "version",
        "`BITCOUNT` with a start alone, `SCAN … TYPE` of no type, a `GEOSEARCH` around nobody, `HEXPIRE` and its kin, "
        "`CLIENT KILL`, `CLIENT LIST`, what a transaction refuses",
        "slotlog is Redis 7.4, which has other words there than Valkey 9.1",
        _of_redis,
    ),
    Permitted(
        "greeting",
        "`HELLO`",
        "`server`, `version`, `id` and `modules` (the oracle has Lua) are a server's own; other fields are Redis'",
        _greeting,
    ),
    Permitted(
        "protocol in a transaction",
        "`EXEC` of a `HELLO`",
        "Redis encodes each reply as it comes; ours all have the protocol that is spoken when `EXEC` is answered",
        _greeting_in_transaction,
    ),
)

DRAWN: Final = (
    "drawn",
    "`SPOP`, `RANDOMKEY`, `SRANDMEMBER`, `HRANDFIELD`, `ZRANDMEMBER`",
    "drawn at random: what slotlog drew has to be in the oracle, and what it popped is removed there with `SREM`",
)
"""An exception that is a matter of what is asked (`tests.wire.draws`): such a reply is never compared."""

COUNTED: Final = (
    "counted",
    "`PFCOUNT` of one key",
    "Redis writes the count into the value; it is asked for the key and itself, which writes nothing",
)
"""Another one: the reply is compared, and has to be the same."""


def excused(reply: Reply) -> str:
    """The name of the exception that covers this difference; empty: none does."""
    return next((exception.name for exception in EXCEPTIONS if exception.covers(reply)), "")


def as_table() -> str:
    """All of them, as docs/differences.md has them."""
    rows = [*((exception.name, exception.where, exception.why) for exception in EXCEPTIONS), DRAWN, COUNTED]
    return "".join(f"| {' | '.join(row)} |\n" for row in [("exception", "where", "why"), ("---", "---", "---"), *rows])
