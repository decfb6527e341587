"""Commands without keys that a script may call, and those that Redis refuses to scripts.

PUBLISH inside a script is heard once its event is committed, and returns 0: how many hear it is no part of the state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from engine.errors import CommandError
from engine.values.replies import Reply, Status

_WRONG_ARITY: Final = "ERR Wrong number of args calling Redis command from script"
_PONG: Final = Status(b"PONG")


class Caller(Protocol):
    """The run of a script."""

    @property
    def now_ms(self) -> int:
        """Log time of its record."""
        ...

    def publish(self, channel: bytes, message: bytes, *, on_shard: bool) -> None:
        """Tell the listeners of a channel, once the record is committed."""


Simple = Callable[[Caller, list[bytes]], Reply]


def _ping(caller: Caller, args: list[bytes]) -> Reply:
    _check(args, 0, 1)
    return args[0] if args else _PONG


def _echo(caller: Caller, args: list[bytes]) -> Reply:
    _check(args, 1, 1)
    return args[0]


def _time(caller: Caller, args: list[bytes]) -> Reply:
    _check(args, 0, 0)
    seconds, ms = divmod(caller.now_ms, 1000)
    return [b"%d" % seconds, b"%d" % (ms * 1000)]


def _publish(caller: Caller, args: list[bytes]) -> Reply:
    _check(args, 2, 2)
    caller.publish(args[0], args[1], on_shard=False)
    return 0


def _spublish(caller: Caller, args: list[bytes]) -> Reply:
    _check(args, 2, 2)
    caller.publish(args[0], args[1], on_shard=True)
    return 0


def _check(args: list[bytes], least: int, most: int) -> None:
    if not least <= len(args) <= most:
        raise CommandError(_WRONG_ARITY)


WITHOUT_KEYS: Final[dict[bytes, Simple]] = {
    b"PING": _ping,
    b"ECHO": _echo,
    b"TIME": _time,
    b"PUBLISH": _publish,
    b"SPUBLISH": _spublish,
}
"""Commands of the server that scripts may call, by name."""

REFUSED: Final = frozenset(
    b"ACL ASKING AUTH BGREWRITEAOF BGSAVE BLMOVE BLMPOP BLPOP BRPOP BRPOPLPUSH BZMPOP BZPOPMAX BZPOPMIN CLIENT CONFIG "
    b"DEBUG DISCARD EXEC FUNCTION HELLO LATENCY MODULE MONITOR MULTI "
    b"PSUBSCRIBE PSYNC PUNSUBSCRIBE QUIT REPLCONF REPLICAOF RESET ROLE SAVE SCRIPT SHUTDOWN SLAVEOF SLOWLOG SSUBSCRIBE "
    b"SUBSCRIBE SUNSUBSCRIBE SYNC UNSUBSCRIBE WAIT WAITAOF".split()
)
"""Commands that Redis has, and refuses to scripts; those of them that the engine does not know."""
