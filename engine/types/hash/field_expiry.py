"""Fields of a hash with times to live. Its first one gives a hash its timed form for life.

A field is due when the log's clock has come to its time. Then it counts as absent, though its records stay until it is
written again, or `remove_due` cleans up: that changes no reply and no digest. A hash whose fields are all due is a key
that is due (`Key.settle`), so one that `find` gives has a field that is alive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain, islice
from typing import Final

from engine.batch.keys.key import BY_FIELD, BY_TIME, FieldTimes, Key
from engine.batch.overlaid import Records, Subkeys
from engine.batch.transaction import Transaction
from engine.layouts.layout import Form
from engine.model import HASH
from engine.values.encoding import U64, pack_u64, parse_u64

IsDue = Callable[[bytes], bool]

ABSENT: Final = -2
"""The result for a field that is not there, or due."""

NEVER: Final = -1
"""The result for a field without a time to live."""

_REFUSED: Final = 0
_SET: Final = 1
_DELETED: Final = 2

# ------------------------------------------------------------------ reading


def is_due(times: FieldTimes, field: bytes, now_ms: int) -> bool:
    """Whether `field`, which may be absent, is due at `now_ms`."""
    return 0 < times.soonest_ms <= now_ms and 0 < times.of(field) <= now_ms


def get(tx: Transaction, key: Key, field: bytes) -> bytes | None:
    """The value of a field; None when it is absent or due."""
    if key.times is not None and is_due(key.times, field, tx.now_ms):
        return None
    return key.data.get(field)


def expire_times(tx: Transaction, key: Key | None, fields: Iterable[bytes]) -> list[int]:
    """When each of `fields` dies, in ms; NEVER or ABSENT."""
    return [ABSENT if key is None or get(tx, key, field) is None else _time_of(key, field) for field in fields]


def _time_of(key: Key, field: bytes) -> int:
    return (key.times.of(field) if key.times is not None else 0) or NEVER


def size(tx: Transaction, key: Key) -> int:
    """How many fields of the hash `key` are alive. O(due) where they were not counted before."""
    return key.count() if key.times is None else key.size - key.times.count_due(tx.now_ms)


def living(tx: Transaction, key: Key) -> Key:
    """The hash `key` without the fields that are due, to be read and not to be changed: itself when none is. O(due)."""
    return _living(tx, key, lambda times: dict.fromkeys(times.due(tx.now_ms)).__contains__)


def living_few(tx: Transaction, key: Key) -> Key:
    """As `living`, for who reads few fields of many: O(due) where they were not counted before, or are most of all."""
    if 2 * size(tx, key) < key.size:  # whoever looks for a field that is alive comes by most of the others
        return living(tx, key)
    return _living(tx, key, lambda times: partial(_is_due_now, times, tx.now_ms))


def _living(tx: Transaction, key: Key, dead_of: Callable[[FieldTimes], IsDue]) -> Key:
    times = key.times
    if times is None or not 0 < times.soonest_ms <= tx.now_ms:
        return key
    view = Key(key.db, key.name, key.metadata_key)
    view.type, view.version, view.times = key.type, key.version, times
    view.size = size(tx, key)
    view.data = _Living(key.data, dead_of(times))
    return view


def _is_due_now(times: FieldTimes, now_ms: int, field: bytes) -> bool:
    return is_due(times, field, now_ms)


class _Living(Subkeys):
    """The fields of a hash but those that are due."""

    __slots__ = ("_data", "_is_due")

    def __init__(self, data: Subkeys, is_due: IsDue) -> None:
        super().__init__(data.column_family, data.get, _no_scan, data.prefix, fresh=data.fresh)
        self._data = data
        self._is_due = is_due

    def get(self, subkey: bytes) -> bytes | None:
        return None if self._is_due(subkey) else self._data.get(subkey)

    def scan(self, start: bytes = b"", end: bytes | None = None, *, reverse: bool = False) -> Records:
        is_due = self._is_due
        return (pair for pair in self._data.scan(start, end, reverse=reverse) if not is_due(pair[0]))


def _no_scan(start: bytes, end: bytes, *, reverse: bool) -> Records:
    raise AssertionError


# ------------------------------------------------------------------ fields and values


def put(tx: Transaction, key: Key, pairs: Iterable[tuple[bytes, bytes]], expire_ms: int | None = 0) -> int:
    """Write fields of the hash `key`, which may be new, with a time to live each; 0 for none.

    With None a field keeps the one that it has, unless that is over. Returns how many fields are new.
    """
    if key.times is None and expire_ms:
        start(tx, key)
    times, get_value, changed = key.times, key.data.get, key.data.changed
    added = 0
    for field, value in pairs:
        due = times is not None and is_due(times, field, tx.now_ms)
        is_stored = get_value(field) is not None
        changed[field] = value
        key.size += not is_stored
        added += due or not is_stored
        if due:
            tx.lost_field(key)
        if times is not None and (expire_ms is not None or due):
            times.put(field, expire_ms or 0)
    key.settle()
    return added


def remove(tx: Transaction, key: Key, fields: Iterable[bytes]) -> int:
    """Delete `fields`, and the key with the last one that is alive. Returns how many were there."""
    removed = sum(_remove(tx, key, field) for field in fields)
    if removed:
        _end(tx, key)
    return removed


def _remove(tx: Transaction, key: Key, field: bytes) -> bool:
    """Whether it was there. `_end` must follow."""
    if get(tx, key, field) is None:
        return False
    key.data.remove(field)
    key.size -= 1
    if key.times is not None:
        key.times.put(field, 0)
    return True


def _end(tx: Transaction, key: Key) -> None:
    """What follows changes that may have taken away the last field that is alive."""
    key.settle()
    if key.size == 0 or 0 < key.expire_ms <= tx.now_ms:
        tx.delete(key)


# ------------------------------------------------------------------ times to live


def start(tx: Transaction, key: Key) -> None:
    """Let a hash, which may have fields, have some with a time to live from now on. `Key.settle` must follow.

    Where times stand in front of values each field is written anew: under another version, so that those of a hash of
    any size can be staged.

    Raises:
        CommandError: the layout cannot hold them.
    """
    if not (tx.stamps_fields and key.size):
        tx.start_times(key)
        return
    tx.require(Form.FIELD_TIMES)
    fields, key_size, expire_ms = key.data, key.size, key.expire_ms
    tx.create(key.name, HASH)
    key.size, key.expire_ms = key_size, expire_ms
    tx.start_times(key)
    tx.fill(key, key.data, fields.scan())


def expire(
    tx: Transaction, key: Key, fields: Iterable[bytes], expire_ms: int, is_wanted: Callable[[int], bool]
) -> list[int]:
    """Let `fields` die at `expire_ms`; at once, and the key with the last one, when that time has come.

    Returns for each: ABSENT; 0, it stays as it is, because `is_wanted`, which is given its present time or 0, says so;
    1, it will die then; 2, it was deleted.
    """
    results = [_expire(tx, key, field, expire_ms, is_wanted) for field in fields]
    if max(results) > _REFUSED:
        _end(tx, key)
    return results


def _expire(tx: Transaction, key: Key, field: bytes, expire_ms: int, is_wanted: Callable[[int], bool]) -> int:
    if get(tx, key, field) is None:
        return ABSENT
    if not is_wanted(0 if key.times is None else key.times.of(field)):
        return _REFUSED
    if expire_ms <= tx.now_ms:
        _remove(tx, key, field)
        return _DELETED
    if key.times is None:
        start(tx, key)
    if key.times is not None:
        key.times.put(field, expire_ms)
    return _SET


def persist(tx: Transaction, key: Key, fields: Iterable[bytes]) -> list[int]:
    """Let `fields` live for ever. Returns for each: ABSENT; NEVER, it does already; 1, it will."""
    results = [_persist(tx, key, field) for field in fields]
    if _SET in results:
        key.settle()
    return results


def _persist(tx: Transaction, key: Key, field: bytes) -> int:
    if get(tx, key, field) is None:
        return ABSENT
    if key.times is None or not key.times.of(field):
        return NEVER
    key.times.put(field, 0)
    return _SET


def fill_copy(tx: Transaction, key: Key, source: Key) -> None:
    """Fill `key`, a new copy of the hash `source`, with the fields that are alive and their times to live.

    Without those that are due, else the expiry index would list `key` behind the place that a sweep has come to.
    """
    old, new, now_ms = source.times, key.times, tx.now_ms
    assert old is not None, "a hash in its timed form"
    assert new is not None, "a copy has the form of its source"
    view = living(tx, source)
    by_field = (record for record in old.subkeys.scan(BY_FIELD, BY_TIME) if parse_u64(record[1]) > now_ms)
    by_time = old.subkeys.scan(BY_TIME + pack_u64(now_ms + 1))
    tx.fill(key, new.subkeys, chain(by_field, by_time))
    new.timed -= source.size - view.size
    tx.fill(key, key.data, view.data.scan())  # behind their times, which may be written with them
    key.size = view.size
    first = next(old.subkeys.scan(BY_TIME + pack_u64(now_ms + 1)), None)
    new.soonest_ms = 0 if first is None else parse_u64(first[0][1:][: U64.size])


# ------------------------------------------------------------------ cleaning


def remove_due(tx: Transaction, key: Key, count_max: int) -> int:
    """Remove the records of up to `count_max` fields that are due, of a key that is not. Returns how many there were.

    Physical only: no reply and no digest knows. So it is no modification, and nothing that a command may do.
    """
    times = key.times
    if times is None:
        return 0
    times.floor = max(times.floor, tx.floors.get(key.version, b""))
    found = list(islice(times.due(tx.now_ms), count_max))
    # By both of its records, so that one by time alone, which is damage, stays as it is.
    due = [field for field in found if is_due(times, field, tx.now_ms)]
    if due == found and due:  # all from the first one on; and what is written from now on dies later
        floor = BY_TIME + pack_u64(times.of(due[-1])) + due[-1] + b"\0"
        times.floor = tx.floors[key.version] = floor
    for field in due:
        key.data.remove(field)
        times.put(field, 0)
    if due:
        key.size -= len(due)
        key.settle()
    return len(due)
