"""The commands of the plain model that came later: fields that expire, bitmaps, HyperLogLogs, positions on the earth.

Registers and positions are the engine's own functions of plain values, which other tests hold against the oracle: what
is modelled here is which key has which value after which events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from operator import and_, or_, xor
from typing import TYPE_CHECKING, Final

from engine.errors import CommandError
from engine.model import HASH, STRING, ZSET
from engine.values.geo.geohash import position_of, score_at
from engine.values.geo.shapes import Circle
from engine.values.hyperloglog import values
from tests.model_base import Entry, RejectedError

if TYPE_CHECKING:
    from tests.model import Model

_BITWISE: Final = {b"AND": and_, b"OR": or_, b"XOR": xor}

# ------------------------------------------------------------------------------------------------ fields that expire


def hpexpire(model: Model, name: bytes, lifetime_ms: bytes, *words: bytes) -> None:
    """`words`: FIELDS, their number, and they."""
    _die_at(model, name, model.clock_ms + int(lifetime_ms), words[2:])


def hpexpireat(model: Model, name: bytes, at_ms: bytes, *words: bytes) -> None:
    """As HPEXPIRE."""
    _die_at(model, name, int(at_ms), words[2:])


def hpersist(model: Model, name: bytes, *words: bytes) -> None:
    """As HPEXPIRE."""
    entry = model.typed(name, HASH)
    if entry is not None:
        for field in words[2:]:
            entry.times.pop(field, None)


def hsetex(model: Model, name: bytes, _px: bytes, lifetime_ms: bytes, *words: bytes) -> None:
    """With PX, a time to come, and no other option."""
    pairs = dict(zip(words[2::2], words[3::2], strict=True))
    entry = model.make(name, HASH, dict)
    entry.value.update(pairs)
    entry.times.update(dict.fromkeys(pairs, model.clock_ms + int(lifetime_ms)))


def hgetex(model: Model, name: bytes, option: bytes, *words: bytes) -> None:
    """With PX or PERSIST."""
    if option == b"PERSIST":
        hpersist(model, name, *words)
    else:
        hpexpire(model, name, *words)


def hgetdel(model: Model, name: bytes, *words: bytes) -> None:
    """As HDEL."""
    model.remove(name, HASH, words[2:])


def _die_at(model: Model, name: bytes, expire_ms: int, fields: tuple[bytes, ...]) -> None:
    entry = model.typed(name, HASH)
    if entry is not None:
        entry.times.update({field: expire_ms for field in fields if field in entry.value})
        model.typed(name, HASH)  # those whose time has come already are gone


# ------------------------------------------------------------------------------------------------------------ bitmaps


def setbit(model: Model, name: bytes, offset: bytes, bit: bytes) -> None:
    """One bit, and zeros before it."""
    at, mask = int(offset) // 8, 0x80 >> int(offset) % 8
    _change_byte(model, name, at, lambda byte: byte | mask if bit == b"1" else byte & ~mask)


def bitfield(model: Model, name: bytes, verb: bytes, _u8: bytes, place: bytes, value: bytes) -> None:
    """One SET or INCRBY of a whole byte: type u8, at `#` and its number."""
    number = int(value)
    _change_byte(model, name, int(place[1:]), lambda byte: (number if verb == b"SET" else byte + number) % 256)


def _change_byte(model: Model, name: bytes, at: int, change: Callable[[int], int]) -> None:
    entry = model.make(name, STRING, bytes)
    value = bytearray(entry.value.ljust(at + 1, b"\0"))
    value[at] = change(value[at])
    entry.value = bytes(value)


def bitop(model: Model, operation: bytes, name: bytes, *sources: bytes) -> None:
    """AND, OR or XOR of any number of strings, or NOT of one."""
    found = [model.typed(source, STRING) for source in sources]
    parts = [b"" if entry is None else entry.value for entry in found]
    size = max(map(len, parts))
    numbers = [int.from_bytes(part.ljust(size, b"\0")) for part in parts]
    all_ones = (1 << 8 * size) - 1
    result = numbers[0] ^ all_ones if operation == b"NOT" else reduce(_BITWISE[operation], numbers)
    model.replace(name, Entry(STRING, result.to_bytes(size)) if size else None)


# ------------------------------------------------------------------------------------------------------- HyperLogLogs


def pfadd(model: Model, name: bytes, *elements: bytes) -> None:
    """Elements; none of them make an empty one."""
    with _refusals():
        found = _registers(model, name)
        value = values.EMPTY if found is None else found
        changed = values.added(value, elements) or value
    model.make(name, STRING, bytes).value = changed


def pfmerge(model: Model, name: bytes, *sources: bytes) -> None:
    """The union of all of them."""
    with _refusals():
        others = [found for source in sources if (found := _registers(model, source)) is not None]
        merged = values.merged(_registers(model, name), others)
    model.make(name, STRING, bytes).value = merged


def _registers(model: Model, name: bytes) -> bytes | None:
    entry = model.typed(name, STRING)
    if entry is None:
        return None
    value: bytes = entry.value
    values.check(value[: values.HEADER_BYTES], len(value))
    return value


@contextmanager
def _refusals() -> Iterator[None]:
    """A string that is no HyperLogLog, or a damaged one, is one refusal like another here."""
    try:
        yield
    except CommandError:
        raise RejectedError from None


# ---------------------------------------------------------------------------------------------------------- positions


def geoadd(model: Model, name: bytes, *words: bytes) -> None:
    """Longitude, latitude and member of each."""
    places = zip(map(float, words[::3]), map(float, words[1::3]), strict=True)
    scores = model.make(name, ZSET, dict).value
    scores.update(zip(words[2::3], map(score_at, places), strict=True))


def geosearchstore(model: Model, name: bytes, source: bytes, *words: bytes) -> None:
    """FROMLONLAT and BYRADIUS in metres: every member is looked at."""
    longitude, latitude, radius = (float(words[at]) for at in (1, 2, 4))
    circle = Circle((longitude, latitude), radius)
    entry = model.typed(source, ZSET)
    scores = {} if entry is None else entry.value
    inside = {member: score for member, score in scores.items() if circle.distance(position_of(score)) is not None}
    model.replace(name, Entry(ZSET, inside) if inside else None)


COMMANDS: Final[dict[bytes, Callable[..., None]]] = {
    b"BITFIELD": bitfield,
    b"BITOP": bitop,
    b"GEOADD": geoadd,
    b"GEOSEARCHSTORE": geosearchstore,
    b"HGETDEL": hgetdel,
    b"HGETEX": hgetex,
    b"HPERSIST": hpersist,
    b"HPEXPIRE": hpexpire,
    b"HPEXPIREAT": hpexpireat,
    b"HSETEX": hsetex,
    b"PFADD": pfadd,
    b"PFMERGE": pfmerge,
    b"SETBIT": setbit,
}
