"""BLPOP and the other blocking commands. See `resp.blocking.blocked_clients`.

Sources: https://redis.io/docs/latest/commands/blpop/, …/blmove/, …/blmpop/, …/bzpopmin/, …/bzmpop/.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from math import inf, ldexp
from typing import TYPE_CHECKING, Any, Final

from engine.commands.multi_pop import LIST_ENDS, parse_multi_pop
from engine.commands.zsets.members import ZSET_ENDS
from engine.errors import SYNTAX, CommandError
from engine.model import LIST, ZSET
from engine.values.numbers import parse_long_double
from engine.values.replies import NIL_ARRAY, Reply
from resp.blocking.waiters import Wish
from resp.clients.authorization import denial
from resp.commands.handlers import server_command

if TYPE_CHECKING:
    from resp.clients.session import Session

Event = tuple[list[bytes], Callable[[Reply], Reply]]
"""What pops, as an event that does not wait, and what makes its outcome the reply: nil where nothing was popped."""

AsEvent = Callable[[list[bytes]], Event]

_FLAGS: Final = ("write", "noscript", "blocking")
_TIMEOUT_S_MAX: Final = 2**63 / 1000 - 1
_TIMEOUT_BITS_MAX: Final = 64
_MILLISECOND: Final = 0.001  # a negative time that rounds up to zero is one


def read_timeout(text: bytes) -> float:
    """A timeout in seconds, 0 for ever.

    Raises:
        CommandError: with Redis' text.
    """
    value = parse_long_double(text)
    if value is None:
        raise CommandError("ERR timeout is not a float or out of range")
    too_large = value.mantissa.bit_length() + value.exponent > _TIMEOUT_BITS_MAX
    seconds = -inf if value.mantissa < 0 and too_large else inf if too_large else ldexp(value.mantissa, value.exponent)
    if seconds <= -_MILLISECOND:
        raise CommandError("ERR timeout is negative")
    if seconds > _TIMEOUT_S_MAX:
        raise CommandError("ERR timeout is out of range")
    return max(0.0, seconds)


# ---------------------------------------------------------------------- lists


def _list_event(name: bytes, side: bytes) -> AsEvent:
    """The first of several keys that has elements is found when the event is applied."""

    def as_event(args: list[bytes]) -> Event:
        read_timeout(args[-1])
        keys = args[:-1]
        if len(keys) == 1:
            return [name, *keys], lambda value: NIL_ARRAY if value is None else [keys[0], value]
        return [b"LMPOP", b"%d" % len(keys), *keys, side], _first_popped

    return as_event


def _first_popped(reply: Reply) -> Reply:
    return reply if not isinstance(reply, list) else [reply[0], reply[1][0]]


def _wait(
    session: Session, type_code: int, keys: list[bytes], event: Event, timeout: bytes
) -> Coroutine[Any, Any, Reply]:
    return _begin(session, Wish(type_code, keys, *event), read_timeout(timeout))


def _begin(session: Session, wish: Wish, timeout_s: float) -> Coroutine[Any, Any, Reply]:
    plan, command = session.served_plan, session.served_command
    assert plan is not None
    refusal = partial(denial, session.server, session, plan, command, command[1:])
    return session.server.blocked.wait(session, wish, timeout_s, refusal)


_LEFT: Final = _list_event(b"LPOP", b"LEFT")
_RIGHT: Final = _list_event(b"RPOP", b"RIGHT")

_list_popper = partial(
    server_command,
    group="list",
    since="2.0.0",
    complexity="O(keys)",
    flags=_FLAGS,
    categories=("write", "list", "slow", "blocking"),
    access="RW access delete",
)


@_list_popper("BLPOP key [key ...] timeout", as_event=_LEFT)
def blpop(session: Session, args: list[bytes]) -> Reply:
    """Remove and give the first element of the first list that has any; wait for one up to `timeout` seconds."""
    return _wait(session, LIST, args[:-1], _LEFT(args), args[-1])


@_list_popper("BRPOP key [key ...] timeout", as_event=_RIGHT)
def brpop(session: Session, args: list[bytes]) -> Reply:
    """Remove and give the last element of the first list that has any; wait for one up to `timeout` seconds."""
    return _wait(session, LIST, args[:-1], _RIGHT(args), args[-1])


def _read_side(text: bytes) -> bytes:
    side = text.upper()
    if side not in {b"LEFT", b"RIGHT"}:
        raise CommandError(SYNTAX)
    return side


def _move_event(args: list[bytes]) -> Event:
    sides = [_read_side(side) for side in args[2:4]]
    read_timeout(args[-1])
    return [b"LMOVE", *args[:2], *sides], _same


def _rotate_event(args: list[bytes]) -> Event:
    read_timeout(args[-1])
    return [b"RPOPLPUSH", *args[:-1]], _same


def _many_event(name: bytes, args: list[bytes]) -> Event:
    read_timeout(args[0])
    return [name, *args[1:]], _same


def _same(reply: Reply) -> Reply:
    return reply


_list_mover = partial(
    server_command,
    group="list",
    flags=(*_FLAGS, "denyoom"),
    categories=("write", "list", "slow", "blocking"),
    access="RW access delete, RW insert",
)


@_list_mover("BLMOVE source destination LEFT|RIGHT LEFT|RIGHT timeout", since="6.2.0", as_event=_move_event)
def blmove(session: Session, args: list[bytes]) -> Reply:
    """Move an element from one list to another; wait for one up to `timeout` seconds."""
    return _move(session, args, _move_event(args))


@_list_mover("BRPOPLPUSH source destination timeout", since="2.2.0", as_event=_rotate_event)
def brpoplpush(session: Session, args: list[bytes]) -> Reply:
    """Move the last element of one list to the front of another; wait for one up to `timeout` seconds."""
    return _move(session, args, _rotate_event(args))


def _move(session: Session, args: list[bytes], event: Event) -> Coroutine[Any, Any, Reply]:
    wish = Wish(LIST, args[:1], *event, destination=args[1])
    return _moved(session, _begin(session, wish, read_timeout(args[-1])))


async def _moved(session: Session, waiting: Coroutine[Any, Any, Reply]) -> Reply:
    reply = await waiting
    return None if reply is NIL_ARRAY and session.protocol == 3 else reply


# ---------------------------------------------------------------------- several at once


def _wait_many(
    session: Session, args: list[bytes], type_code: int, name: bytes, ends: Mapping[bytes, bool]
) -> Coroutine[Any, Any, Reply]:
    event = _many_event(name, args)
    keys, _, wanted = parse_multi_pop(args[1:], ends)
    wish = Wish(type_code, keys, *event, wanted=wanted)
    return _begin(session, wish, read_timeout(args[0]))


@server_command(
    "BLMPOP timeout numkeys key [key ...] LEFT|RIGHT [COUNT count]",
    group="list",
    since="7.0.0",
    complexity="O(keys + elements taken)",
    flags=("write", "blocking", "movablekeys"),
    categories=("write", "list", "slow", "blocking"),
    access="RW access delete",
    as_event=partial(_many_event, b"LMPOP"),
)
def blmpop(session: Session, args: list[bytes]) -> Reply:
    """Remove and return elements of the first list that has any; wait up to `timeout` seconds for one."""
    return _wait_many(session, args, LIST, b"LMPOP", LIST_ENDS)


@server_command(
    "BZMPOP timeout numkeys key [key ...] MIN|MAX [COUNT count]",
    group="sorted-set",
    since="7.0.0",
    complexity="O(keys + members taken)",
    flags=("write", "blocking", "movablekeys"),
    categories=("write", "sortedset", "slow", "blocking"),
    access="RW access delete",
    as_event=partial(_many_event, b"ZMPOP"),
)
def bzmpop(session: Session, args: list[bytes]) -> Reply:
    """Remove and return members of the first sorted set that has any; wait up to `timeout` seconds for one."""
    return _wait_many(session, args, ZSET, b"ZMPOP", ZSET_ENDS)


# ---------------------------------------------------------------------- sorted sets


def _zset_event(name: bytes, side: bytes) -> AsEvent:
    def as_event(args: list[bytes]) -> Event:
        read_timeout(args[-1])
        keys = args[:-1]
        if len(keys) == 1:
            return [name, *keys], lambda popped: [keys[0], *_flat(popped)] if popped else NIL_ARRAY
        return [b"ZMPOP", b"%d" % len(keys), *keys, side], _first_member

    return as_event


def _first_member(reply: Reply) -> Reply:
    if not isinstance(reply, list):
        return reply
    member, score = reply[1][0]
    return [reply[0], member, score]


def _flat(popped: Reply) -> list[Reply]:
    """The member and its score, of a reply that has them as a pair or flat."""
    return list(popped[0]) if isinstance(popped[0], tuple) else list(popped)


_LOWEST: Final = _zset_event(b"ZPOPMIN", b"MIN")
_HIGHEST: Final = _zset_event(b"ZPOPMAX", b"MAX")

_zset_popper = partial(
    server_command,
    group="sorted-set",
    since="5.0.0",
    complexity="O(keys)",
    flags=(*_FLAGS, "fast"),
    categories=("write", "sortedset", "fast", "blocking"),
    access="RW access delete",
)


@_zset_popper("BZPOPMIN key [key ...] timeout", as_event=_LOWEST)
def bzpopmin(session: Session, args: list[bytes]) -> Reply:
    """Remove and give the member with the lowest score; wait for one up to `timeout` seconds."""
    return _wait(session, ZSET, args[:-1], _LOWEST(args), args[-1])


@_zset_popper("BZPOPMAX key [key ...] timeout", as_event=_HIGHEST)
def bzpopmax(session: Session, args: list[bytes]) -> Reply:
    """Remove and give the member with the highest score; wait for one up to `timeout` seconds."""
    return _wait(session, ZSET, args[:-1], _HIGHEST(args), args[-1])
