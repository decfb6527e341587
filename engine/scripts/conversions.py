"""Replies as Lua values, and back.

Source: https://redis.io/docs/latest/develop/programmability/lua-api/, and Redis' script_lua.c where that is silent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, Final

from engine.errors import CommandError, counted_error
from engine.values.replies import NIL_ARRAY, BigNumber, Digits, Map, Named, Pairs, Reply, Set, Status, Verbatim
from slotlog.shared.doubles import format_double

_LONG_MIN: Final = -(2**63)
_EXACT_MAX: Final = 2**53
_NOT_A_WORD: Final = "ERR Lua redis lib command arguments must be strings or integers"


def to_word(value: Any) -> bytes:
    """A number of Lua as a word of a command, as Redis prints it.

    Raises:
        CommandError: it is none.
    """
    kind = type(value)
    if kind is int and -_EXACT_MAX <= value <= _EXACT_MAX:
        return b"%d" % value
    if kind is int or kind is float:
        return b"-nan" if value != value else format_double(float(value))  # noqa: PLR0124 - NaN
    raise CommandError(_NOT_A_WORD)


def to_lua(reply: Reply, table: Callable[[Any], Any], resp: int) -> Any:
    """A command's reply as a Lua value.

    Args:
        reply: see `engine.values.replies`.
        table: makes a Lua table of a list or a dict.
        resp: the protocol that the script has chosen, 2 or 3.
    """
    kind = type(reply)
    if kind is bytes or kind is int:
        return reply
    if kind is list:
        return table([to_lua(element, table, resp) for element in reply])
    if reply is None or reply is NIL_ARRAY:
        return None if resp == 3 else False
    return _CONVERTED[kind](reply, table, resp)


_Table = Callable[[Any], Any]


def _map(pairs: Map, table: _Table, resp: int) -> Any:
    if resp == 3:
        inner = {to_lua(key, table, 3): to_lua(value, table, 3) for key, value in pairs}
        return table({b"map": table(inner)})
    return to_lua(list(chain.from_iterable(pairs)), table, resp)


def _set(members: Set, table: _Table, resp: int) -> Any:
    if resp == 3:
        return table({b"set": table({to_lua(member, table, 3): True for member in members})})
    return to_lua(list(members), table, resp)


def _pairs(pairs: Pairs, table: _Table, resp: int) -> Any:
    if resp == 3:
        return to_lua([[first, second] for first, second in pairs], table, resp)
    return to_lua(list(chain.from_iterable(pairs)), table, resp)


def _named(pairs: Named, table: _Table, resp: int) -> Any:
    if resp == 3:
        return _map(Map(pairs), table, 3)
    return to_lua([[name, value] for name, value in pairs], table, resp)


def _double(value: float, table: _Table, resp: int) -> Any:
    return table({b"double": value}) if resp == 3 else format_double(value)


def _digits(digits: Digits, table: _Table, resp: int) -> Any:
    return table({b"double": float(digits)}) if resp == 3 else bytes(digits)


def _truth(value: bool, table: _Table, resp: int) -> Any:
    return value if resp == 3 else int(value)


def _big_number(digits: BigNumber, table: _Table, resp: int) -> Any:
    return table({b"big_number": bytes(digits)}) if resp == 3 else bytes(digits)


def _verbatim(text: Verbatim, table: _Table, resp: int) -> Any:
    if resp == 3:
        return table({b"verbatim_string": table({b"format": text.form, b"string": bytes(text)})})
    return bytes(text)


_CONVERTED: Final[dict[type, Callable[[Any, _Table, int], Any]]] = {
    Status: lambda status, table, resp: table({b"ok": bytes(status)}),
    CommandError: lambda error, table, resp: table({b"err": error.message.encode(errors="surrogateescape")}),
    float: _double,
    Digits: _digits,
    Map: _map,
    Set: _set,
    Pairs: _pairs,
    Named: _named,
    bool: _truth,
    BigNumber: _big_number,
    Verbatim: _verbatim,
}


def from_list(outcome: tuple[Any, ...]) -> Reply:
    """The reply of what replies.lua has made: the first lines of that file say what stands in it.

    Args:
        outcome: something, the number of items, and the items, or one Lua table of them.
    """
    if len(outcome) == 4 and outcome[2] in _SCALARS:
        return _SCALARS[outcome[2]](outcome[3])
    items = iter(outcome) if outcome[1] == len(outcome) - 2 else iter([None, None, *outcome[2].values()])
    next(items)
    next(items)
    return _next(items)


def _next(items: Iterator[Any]) -> Reply:
    letter = next(items)
    if letter == b"*":
        return [_next(items) for _ in range(next(items))]
    if letter == b"~":
        return Set(_next(items) for _ in range(next(items)))
    if letter == b"%":
        return Map((_next(items), _next(items)) for _ in range(next(items)))
    if letter == b"=":
        return Verbatim(form=next(items), text=next(items))
    if letter in _CONSTANTS:
        return _CONSTANTS[letter]
    return _SCALARS[letter](next(items))


def _integer(number: float) -> int:
    """As C's cast of a double to `long long` on x86-64."""
    if -(2.0**63) <= number < 2.0**63:
        return int(number)
    return _LONG_MIN


_CONSTANTS: Final[dict[bytes, Reply]] = {b"_": None, b"t": True, b"f": False}
_SCALARS: Final[dict[bytes, Callable[[Any], Reply]]] = {
    b"$": bytes,
    b":": _integer,
    b"+": Status,
    b"-": lambda text: CommandError(text.decode(errors="surrogateescape")),
    b"!": lambda text: counted_error(text.decode(errors="surrogateescape")),
    b",": float,
    b"(": BigNumber,
}
