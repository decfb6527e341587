"""MSETEX: sets several strings with one condition and time to live. Source: https://valkey.io/commands/msetex/."""

from __future__ import annotations

from typing import Final

from engine.batch.transaction import Transaction
from engine.commands.expire_options import SET_OPTIONS, parse_string_options
from engine.commands.registry import command
from engine.commands.strings.notifications import of_msetex
from engine.errors import NUMKEYS_INVALID, SYNTAX, CommandError
from engine.types.string import strings
from engine.values.numbers import parse_int
from engine.values.replies import Reply

_OPTIONS: Final = SET_OPTIONS - {b"GET", b"IFEQ"}
_NUMKEYS_MAX: Final = (1 << 31) - 1  # a C int


@command(
    "MSETEX numkeys key value [key value ...] [NX|XX] [EX seconds|PX milliseconds|EXAT unix-time-seconds|"
    "PXAT unix-time-milliseconds|KEEPTTL]",
    group="string",
    since="8.4.0",
    complexity="O(keys)",
    write=True,
    grows=True,
    access="OW update",
    tips=("request_policy:multi_shard", "response_policy:all_succeeded"),
    notifies=of_msetex,
)
def msetex(tx: Transaction, args: list[bytes]) -> Reply:
    """Set several strings with one condition and time to live. Returns 1, or 0 when the condition does not hold.

    The reply is 0 when one of them is there, with NX, or one is not, with XX: then none is set.

    > MSETEX 2 a "1" b "2" EX 60
    (integer) 1
    > TTL b
    (integer) 60
    > MSETEX 2 b "3" c "4" NX
    (integer) 0
    > MGET a b c
    1) "1"
    2) "2"
    3) (nil)
    """
    number = parse_int(args[0])
    if number is None or not 0 < number <= _NUMKEYS_MAX:
        raise CommandError(NUMKEYS_INVALID)
    end = 1 + 2 * number
    if end > len(args):
        raise CommandError(SYNTAX)
    options = parse_string_options(args[end:], _OPTIONS, tx.now_ms, "msetex")
    names = args[1:end:2]
    if options.condition and any((tx.find(name) is None) is (options.condition == b"XX") for name in names):
        return 0
    for name, value in zip(names, args[2:end:2], strict=True):
        key = tx.find(name)
        keeps = key is not None and options.lifetime == b"KEEPTTL"
        strings.put_until(tx, name, key, value, key.own_expire_ms if key and keeps else options.expire_ms)
    return 1
