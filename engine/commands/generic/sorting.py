"""SORT and SORT_RO. Source: https://valkey.io/commands/sort/, and valkey-server 9.1 in the C locale.

A number is what Redis takes for one, which asks strtod(3): nothing at all is 0, blanks in front and hexadecimal digits
are fine. Valkey refuses all three.

A pattern of BY or GET is a C string where `*` and `->` are looked for, so its first NUL ends that search.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from engine.batch.keys.key import Key
from engine.batch.transaction import Transaction
from engine.commands import fills, keyspace_events
from engine.commands.keyspace_events import stored
from engine.commands.options import read_integer, read_option
from engine.commands.registry import command
from engine.errors import SYNTAX, WRONG_TYPE, CommandError
from engine.model import HASH, LIST, SET, STRING, ZSET
from engine.types import lists, sets
from engine.types.hash import hash_fields
from engine.types.string import strings
from engine.types.zset import zset_ranges, zsets
from engine.values.numbers import parse_double
from engine.values.ordering import in_order
from engine.values.replies import Reply, bounded

_NOT_A_NUMBER: Final = "ERR One or more scores can't be converted into double"
_ITSELF: Final = b"#"
_BLANKS: Final = b" \t\n\v\f\r"
_HEX: Final = re.compile(rb"[+-]?0x(?=\.?[0-9a-f])[0-9a-f]*\.?[0-9a-f]*(p[+-]?\d+)?", re.IGNORECASE)
_ARGUMENTS: Final = {b"LIMIT": 2, b"BY": 1, b"GET": 1, b"STORE": 1, b"ASC": 0, b"DESC": 0, b"ALPHA": 0}


class _Options(NamedTuple):
    """What to sort by, which of the sorted elements are wanted, and what becomes of them.

    Attributes:
        by: the pattern; None: the elements themselves.
        ordered: False: BY names no pattern, so the elements stay in their own order.
        offset, most: of LIMIT; below 0: from the first on, and all that are left.
        gets: the patterns of GET.
        store: the destination; None: reply with the elements.
    """

    by: bytes | None = None
    ordered: bool = True
    descending: bool = False
    alpha: bool = False
    offset: int = 0
    most: int = -1
    gets: tuple[bytes, ...] = ()
    store: bytes | None = None


def patterns(args: list[bytes]) -> list[tuple[str, bytes]]:
    """The options BY and GET with their patterns that read other keys, up to the first syntax error."""
    found: list[tuple[str, bytes]] = []
    try:
        for option, values in _words(args[1:]):
            if option == b"LIMIT":
                _parse_limit(values)
            elif option == b"GET" or (option == b"BY" and b"*" in _c_string(values[0])):
                found.append((option.decode(), values[0]))
    except CommandError:
        pass  # the command's to refuse
    return found


@command(
    "SORT key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC|DESC] [ALPHA] [STORE destination]",
    group="generic",
    since="1.0.0",
    complexity="O(n log n) for n elements, and a read for each of them and pattern; O(elements in LIMIT) for a list or "
    "sorted set that BY leaves in its order",
    write=True,
    patterns=patterns,
    grows=True,
    access="RO access, RO access, OW update",
    categories=("set", "sortedset", "list", "dangerous"),
    large_reply=True,
    fills=fills.stored(LIST, place=-1),
    notifies=stored(keyspace_events.LIST, b"sortstore"),
)
def sort(tx: Transaction, args: list[bytes]) -> Reply:
    """Sort the elements of a list, set or sorted set as numbers, or with ALPHA by their bytes.

    BY orders them by other keys: the `*` of the pattern stands for the element, `->field` behind it takes a field of a
    hash. A pattern without `*` leaves them as they are. GET replies with such keys in the place of the elements, `#`
    being the element. STORE makes a list of the result and replies with its length.

    > RPUSH l 3 1 2
    (integer) 3
    > SORT l DESC LIMIT 0 2
    1) "3"
    2) "2"
    > MSET weight_1 "9" weight_2 "8" weight_3 "7"
    OK
    > SORT l BY weight_* GET # GET weight_* LIMIT 0 1
    1) "3"
    2) "7"
    > SORT l STORE sorted
    (integer) 3
    > LRANGE sorted 0 -1
    1) "1"
    2) "2"
    3) "3"
    """
    return _sort(tx, args[0], _parse(args[1:], storing=True))


@command(
    "SORT_RO key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC|DESC] [ALPHA]",
    group="generic",
    since="7.0.0",
    complexity="as SORT",
    patterns=patterns,
    categories=("set", "sortedset", "list", "dangerous"),
)
def sort_ro(tx: Transaction, args: list[bytes]) -> Reply:
    """Sort as SORT does, without STORE.

    > SADD s c a b
    (integer) 3
    > SORT_RO s ALPHA
    1) "a"
    2) "b"
    3) "c"
    """
    return _sort(tx, args[0], _parse(args[1:], storing=False))


# ------------------------------------------------------------------ options


def _words(words: list[bytes]) -> Iterator[tuple[bytes, list[bytes]]]:
    """The options, each with its arguments.

    Raises:
        CommandError: syntax error, once it is reached.
    """
    at = 0
    while at < len(words):
        option = read_option(words[at])
        end = at + 1 + _ARGUMENTS.get(option, len(words))
        if end > len(words):
            raise CommandError(SYNTAX)
        yield option, words[at + 1 : end]
        at = end


def _parse(words: list[bytes], *, storing: bool) -> _Options:
    found = _Options()
    for option, values in _words(words):
        if option == b"LIMIT":
            offset, most = _parse_limit(values)
            found = found._replace(offset=offset, most=most)
        elif option == b"BY":
            # A later pattern does not undo that an earlier one had no `*`.
            ordered = found.ordered and b"*" in _c_string(values[0])
            found = found._replace(by=values[0], ordered=ordered)
        elif option == b"GET":
            found = found._replace(gets=(*found.gets, values[0]))
        elif option == b"ALPHA":
            found = found._replace(alpha=True)
        elif option != b"STORE":
            found = found._replace(descending=option == b"DESC")
        elif storing:
            found = found._replace(store=values[0])
        else:
            raise CommandError(SYNTAX)
    return found


def _parse_limit(values: list[bytes]) -> tuple[int, int]:
    offset, most = map(read_integer, values)
    return offset, most


# ------------------------------------------------------------------ sorting


def _sort(tx: Transaction, name: bytes, options: _Options) -> Reply:
    key = tx.find(name)
    if key is not None and key.type not in {LIST, SET, ZSET}:
        raise CommandError(WRONG_TYPE)
    if key is not None and key.type == SET and options.store is not None and not options.ordered:
        options = options._replace(by=None, ordered=True, alpha=True)  # what is stored has an order
    elements = [] if key is None else _wanted(tx, key, options)
    found: list[bytes | None] = list(elements)
    if options.gets:
        found = _looked_up(tx, options.gets, elements)
    if options.store is None:
        return found
    return lists.store(tx, options.store, [b"" if value is None else value for value in found])


def _wanted(tx: Transaction, key: Key, options: _Options) -> list[bytes]:
    """The elements in order, those in LIMIT alone."""
    size = key.count()
    first = min(max(options.offset, 0), size)
    stop = size if options.most < 0 else min(first + options.most, size)
    if not options.ordered and key.type != SET:
        return _in_place(tx, key, first, stop, reverse=options.descending)
    elements = _in_place(tx, key, 0, size, reverse=False)
    if options.ordered:
        elements = _ordered(tx, elements, options)
    return elements[first:stop]


def _in_place(tx: Transaction, key: Key, first: int, stop: int, *, reverse: bool) -> list[bytes]:
    """The elements from one position to before another in their own order; a set's in that of their bytes."""
    if first >= stop:
        return []
    if key.type == ZSET:
        found = zset_ranges.scan_ranks(tx, key, first, stop - 1, reverse=reverse)
        return [zsets.split(score_key)[0] for score_key in bounded(found)]
    if key.type == SET:
        return bounded(sets.members(key))
    if not reverse:
        return lists.elements(key, first, stop)
    return lists.elements(key, key.size - stop, key.size - first)[::-1]


def _ordered(tx: Transaction, elements: list[bytes], options: _Options) -> list[bytes]:
    """Those that compare as equal stay in the order in which they came."""
    weights: list[bytes | None] = list(elements)
    if options.by is not None:
        weights = _looked_up(tx, (options.by,), elements)
    ranks: list[tuple[object, bytes]]
    if options.alpha:
        # One without a weight stands before all others. Redis compares C strings unless it stores what it sorts.
        shown = [b"" if weight is None else weight if options.store else _c_string(weight) for weight in weights]
        ranks = list(zip([weight is not None for weight in weights], shown, strict=True))
    else:
        ranks = list(zip(map(_number, weights), elements, strict=True))
    order = in_order(range(len(elements)), ranks.__getitem__, reverse=options.descending)
    return [elements[at] for at in order]


def _looked_up(tx: Transaction, patterns: tuple[bytes, ...], elements: list[bytes]) -> list[bytes | None]:
    """What each of the patterns refers to for the first element, then for the second one, and so on.

    Raises:
        CommandError: that is too much for one reply; a few elements may all name one huge value.
    """
    references = [_Reference(pattern) for pattern in patterns]
    values = (reference.value(tx, element) for element in elements for reference in references)
    return bounded(values, lambda some: len(some[0] or b""), at_once=1)


def _number(weight: bytes | None) -> float:
    """A weight as a number, 0 when there is none or it is empty: what strtod(3) makes of it, as in Redis.

    Raises:
        CommandError: it spells no number.
    """
    text = b"" if weight is None else _c_string(weight)
    if not text:
        return 0.0
    digits = text.lstrip(_BLANKS)
    number = _from_hex(digits) if _HEX.fullmatch(digits) else parse_double(digits)
    if number is None:
        raise CommandError(_NOT_A_NUMBER)
    return number


def _from_hex(digits: bytes) -> float | None:
    """A number such as 0x1.8p3; None when it is too large."""
    try:
        return float.fromhex(digits.decode())
    except OverflowError:
        return None


class _Reference:
    """What a pattern refers to: `prefix*suffix`, `prefix*suffix->field`, `#` the element itself, or else nothing."""

    def __init__(self, pattern: bytes) -> None:
        text = _c_string(pattern)
        self._itself = text == _ITSELF
        star = text.find(b"*")
        self._nothing = star < 0
        arrow = text.find(b"->", star + 1)
        has_field = 0 <= arrow < len(text) - 2
        self._field = pattern[arrow + 2 :] if has_field else None
        self._prefix = pattern[:star]
        self._suffix = pattern[star + 1 : arrow if has_field else None]

    def value(self, tx: Transaction, element: bytes) -> bytes | None:
        """What it refers to for this element; None when that is not there, or of another type."""
        if self._itself:
            return element
        key = None if self._nothing else tx.find(self._prefix + element + self._suffix)
        if key is None:
            return None
        if self._field is not None:
            return hash_fields.get(tx, key, self._field) if key.type == HASH else None
        return strings.read(tx, key) if key.type == STRING else None


def _c_string(text: bytes) -> bytes:
    return text.partition(b"\0")[0]
