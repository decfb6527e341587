"""The `system` column family: facts about a state directory, written in the same batch as the data.

name           value
format         [8]          version of this table and of the shared column families, 1
layout         text         name of the layout
rules          [8]          rules number, 1 before the log says otherwise
partition      [8]
partitions     [8]          of the topic
topic          text
next_offset    [8]          the first record that is not applied
clock_ms       [8]          highest record time applied
last_version   [8]          newest version taken
fingerprint    bytes        the log's own mark of the last data record applied (slotlog/log)
count/<db>/<type code>  [8] keys with a metadata record, due ones included
skip/<offset>  empty        an operator's decision to go past that record
skip/<offset>  [end:8]      the same, of the records from there to before `end`
database/<db>  [8]          where the records of that logical database are, after SWAPDB; none: under its own number
set_back/<n>   [from_ms:8][to_ms:8]   the n-th time, from 0, that the clock was set back (engine/apply/set_back.py)
retime/<offset>  [end:8][time_ms:8]   an operator's decision: no record from there to before `end` has a later time
watch/…                     engine/tables/watches.py
script/…                    engine/tables/scripts.py
library/…                   engine/tables/libraries.py
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from struct import Struct
from typing import Any, Final

from engine.errors import CorruptionError, StateMismatchError
from engine.layouts import takes_over
from engine.store.failures import is_store_failure, read_failure
from engine.store.store import LOCAL_CF, SYSTEM_CF, Changes, Store
from engine.values.encoding import U64, pack_u64, parse_u64
from slotlog.shared.errors import InvariantError
from slotlog.shared.limits import DATABASES

FORMAT: Final = 1
FIRST_RULES: Final = 1
"""Those of a log before it says otherwise."""

RULES: Final = 4
"""The newest rules that this engine knows: every command, limit and event version belongs to a rules number.

1   from the first event on
2   ZADD and ZINCRBY take a score in hexadecimal, as Redis 7.4 does
3   XADD and XTRIM with `~` take whole nodes, as Redis does
4   a script that is an event may call HSCAN, SSCAN and ZSCAN
"""

RULES_OF_HEXADECIMAL_SCORES: Final = 2
RULES_OF_STREAM_NODES: Final = 3
RULES_OF_SCANS_IN_SCRIPTS: Final = 4

COUNT: Final = b"count/"
SKIP: Final = b"skip/"
DATABASE: Final = b"database/"
SET_BACK: Final = b"set_back/"
RETIME: Final = b"retime/"
REPLAYING: Final = b"replaying"
PAIR: Final = Struct(">QQ")

SetBacks = tuple[tuple[int, int], ...]
"""(from_ms, to_ms) of each time that a partition's clock was set back."""

Retimes = tuple[tuple[int, int, int], ...]
"""(begin, end, time_ms): records at offsets from `begin` to before `end` have that time where theirs is later."""


UNSWAPPED: Final = tuple(range(DATABASES))
"""`Position.stored_dbs` of a state that has met no SWAPDB."""


@dataclass(frozen=True, slots=True)
class Home:
    """The identity of a state directory, which never changes."""

    topic: str
    partition: int
    partitions: int
    layout: str


class Skips(tuple[tuple[int, int], ...]):
    """(begin, end) of the records that an operator has decided to skip, end exclusive. Ascending."""

    __slots__ = ()

    def end_from(self, offset: int) -> int:
        """The end of the decision about `offset`; without one, `offset` itself."""
        return next((end for begin, end in self if begin <= offset < end), offset)

    def within(self, begin: int, records: Sequence[Any]) -> frozenset[int]:
        """The skipped offsets, from `begin` to the last of `records`."""
        if not self or not records:
            return frozenset()
        last = records[-1][0]
        return frozenset(offset for each in self for offset in range(max(begin, each[0]), min(last + 1, each[1])))

    def texts(self) -> list[str]:
        """`4711`, `4711-4720`."""
        return [str(begin) if end == begin + 1 else f"{begin}-{end - 1}" for begin, end in self]


NO_SKIPS: Final = Skips()


@dataclass(slots=True)
class Position:
    """The progress of a state. `fingerprint` is the log's mark of the last applied data record, or None.

    `counts` are keys by (stored db, type code), `skips` what an operator has decided to go past.
    `stored_dbs` has, for each logical database, the number under which its records are stored. `set_backs` says when
    the clock was set back, `retimes` which records have another time than the log gives them.
    """

    next_offset: int = 0
    clock_ms: int = 0
    last_version: int = 0
    rules: int = FIRST_RULES
    fingerprint: bytes | None = None
    counts: dict[tuple[int, int], int] = field(default_factory=dict)
    skips: Skips = NO_SKIPS
    stored_dbs: tuple[int, ...] = UNSWAPPED
    set_backs: SetBacks = ()
    retimes: Retimes = ()


def read_home(store: Store) -> Home | None:
    """Which state the store holds; None when it is empty.

    Raises:
        StateMismatchError: a newer slotlog wrote it.
        CorruptionError: it has a format but not the rest.
    """
    get = store.getter(SYSTEM_CF)
    written = get(b"format")
    if written is None:
        return None
    state_format = _number(b"format", written)
    if state_format != FORMAT:
        message = f"the state has format {state_format}, this slotlog knows {FORMAT}; use the release that wrote it"
        raise StateMismatchError(message)
    names = (b"topic", b"partition", b"partitions", b"layout")
    topic, partition, partitions, layout = (get(name) for name in names)
    if topic is None or partition is None or partitions is None or layout is None:
        message = "the state does not say what it is; rebuild it with `slotlog replay --swap`"
        raise CorruptionError(message)
    return Home(topic.decode(), _number(b"partition", partition), _number(b"partitions", partitions), layout.decode())


def open_position(store: Store, home: Home) -> Position:
    """The position of the state that belongs to `home`: of an empty store, the log's start.

    Raises:
        StateMismatchError: the store belongs elsewhere, or knows rules that this engine does not.
        CorruptionError: these records are damaged.
        OSError: the store cannot be read now.
    """
    try:
        stored = read_home(store)
        position = (
            Position(skips=_read_skips(store), retimes=_read_retimes(store))
            if stored is None
            else _read_position(store)
        )
    except ValueError as error:  # a name or a number that is none
        message = f"the state's own records cannot be read ({error}); rebuild it with `slotlog replay --swap`"
        raise CorruptionError(message) from error
    except Exception as error:
        if type(error) is Exception and is_store_failure(error):  # of RocksDB: a file that cannot be read now
            raise OSError(read_failure(error)) from error
        raise
    if stored is None:
        return position
    if stored != home and not is_taken_over(stored, home):
        raise StateMismatchError(_difference(stored, home))
    if position.rules > RULES:
        message = f"the state follows rules {position.rules}, this slotlog knows {RULES}; use a newer release"
        raise StateMismatchError(message)
    return position


def is_taken_over(stored: Home, home: Home) -> bool:
    """Whether `stored` is `home` in a layout whose states the layout of `home` takes over."""
    return takes_over(home.layout, stored.layout) and replace(stored, layout=home.layout) == home


def _difference(stored: Home, home: Home) -> str:
    """What of `stored` is not as `home` says."""
    said = (
        ("its topic is {}, not {}", stored.topic, home.topic),
        ("its topic has {} partitions, not {}", stored.partitions, home.partitions),
        ("it is of partition {}, not {}", stored.partition, home.partition),
        ("its layout is {}, not {} (`slotlog convert` makes a state of another one)", stored.layout, home.layout),
    )
    differing = ", ".join(text.format(found, asked) for text, found, asked in said if found != asked)
    return f"the state is another one: {differing}; choose another --data, or set the options to match"


def _read_position(store: Store) -> Position:
    get = store.getter(SYSTEM_CF)
    next_offset, clock_ms, last_version, rules = (
        _number(name, get(name)) for name in (b"next_offset", b"clock_ms", b"last_version", b"rules")
    )
    return Position(
        next_offset=next_offset,
        clock_ms=clock_ms,
        last_version=last_version,
        rules=rules,
        fingerprint=get(b"fingerprint"),
        counts={_parse_count(name): _number(name, value) for name, value in _named(store, COUNT)},
        skips=_read_skips(store),
        stored_dbs=read_stored_dbs(store),
        set_backs=read_set_backs(store),
        retimes=_read_retimes(store),
    )


def _read_skips(store: Store) -> Skips:
    found = ((name, int(name[len(SKIP) :]), value) for name, value in _named(store, SKIP))
    return Skips(sorted((begin, _number(name, value) if value else begin + 1) for name, begin, value in found))


def read_set_backs(store: Store) -> SetBacks:
    """When the clock was set back, in the order in which that happened."""
    pairs = {int(name[len(SET_BACK) :]): _pair(name, value) for name, value in _named(store, SET_BACK)}
    return tuple(pairs[number] for number in sorted(pairs))


def _read_retimes(store: Store) -> Retimes:
    return tuple(sorted((int(name[len(RETIME) :]), *_pair(name, value)) for name, value in _named(store, RETIME)))


def read_stored_dbs(store: Store) -> tuple[int, ...]:
    """By logical database, the number under which its records are stored."""
    stored = list(UNSWAPPED)
    for name, value in _named(store, DATABASE):
        stored[int(name[len(DATABASE) :])] = _number(name, value)
    return tuple(stored)


def write_home(changes: Changes, home: Home) -> None:
    """Add what the directory is to its first batch."""
    changes.of(SYSTEM_CF).update(
        {
            b"format": pack_u64(FORMAT),
            b"topic": home.topic.encode(),
            b"partition": pack_u64(home.partition),
            b"partitions": pack_u64(home.partitions),
            b"layout": home.layout.encode(),
        }
    )


def write_position(changes: Changes, position: Position, before: Position) -> None:
    """Add the position to a batch, so that data and position are written as one. `before` is what the store has.

    Raises:
        InvariantError: it goes back, or a count is below zero. The clock may go back together with a new `set_backs`.
    """
    if position.next_offset < before.next_offset:
        raise InvariantError(f"the next offset would go back from {before.next_offset} to {position.next_offset}")
    if position.clock_ms < before.clock_ms and len(position.set_backs) == len(before.set_backs):
        raise InvariantError(f"the clock would go back from {before.clock_ms} to {position.clock_ms} ms")
    if position.last_version < before.last_version or position.rules < before.rules:
        raise InvariantError(
            f"the last version would go back from {before.last_version} to {position.last_version}, "
            f"or the rules from {before.rules} to {position.rules}"
        )
    system = changes.of(SYSTEM_CF)
    system[b"next_offset"] = pack_u64(position.next_offset)
    system[b"clock_ms"] = pack_u64(position.clock_ms)
    system[b"last_version"] = pack_u64(position.last_version)
    system[b"rules"] = pack_u64(position.rules)
    if position.fingerprint is not None:
        system[b"fingerprint"] = position.fingerprint
    for (db, type_code), count in position.counts.items():
        if count < 0:
            raise InvariantError(f"database {db} would have {count} keys of type {type_code}")
        system[COUNT + b"%d/%d" % (db, type_code)] = pack_u64(count)
    for number, pair in enumerate(position.set_backs[len(before.set_backs) :], len(before.set_backs)):
        system[SET_BACK + b"%d" % number] = PAIR.pack(*pair)
    if position.stored_dbs != before.stored_dbs:
        for db, stored in enumerate(position.stored_dbs):
            if stored != before.stored_dbs[db]:
                system[DATABASE + b"%d" % db] = pack_u64(stored) if stored != db else None


def skip_changes(offset: int, end: int | None = None) -> Changes:
    """The batch that records an operator's decision to go past the record at `offset`, or all to before `end`."""
    changes = Changes()
    changes.of(SYSTEM_CF)[SKIP + b"%d" % offset] = b"" if end is None or end == offset + 1 else pack_u64(end)
    return changes


def retime_changes(begin: int, end: int, time_ms: int) -> Changes:
    """The batch that records an operator's decision on the time of the records from `begin` to before `end`."""
    changes = Changes()
    changes.of(SYSTEM_CF)[RETIME + b"%d" % begin] = PAIR.pack(end, time_ms)
    return changes


def _parse_count(name: bytes) -> tuple[int, int]:
    db, _, type_code = name[len(COUNT) :].partition(b"/")
    return int(db), int(type_code)


def _number(name: bytes, value: bytes | None) -> int:
    if value is None or len(value) != U64.size:
        message = f"the state has no {name.decode()}; rebuild it with `slotlog replay --swap`"
        raise CorruptionError(message)
    return parse_u64(value)


def _pair(name: bytes, value: bytes) -> tuple[int, int]:
    if len(value) != PAIR.size:
        message = f"the record {name.decode()} cannot be read; rebuild the state with `slotlog replay --swap`"
        raise CorruptionError(message)
    first, second = PAIR.unpack(value)
    return first, second


def replaying_changes(*, begins: bool) -> Changes:
    """The batch that marks a directory as an unfinished replay without a WAL, or removes the mark.

    The mark is node-local (column family `local`): no dump and no digest shows it.
    """
    changes = Changes()
    changes.of(LOCAL_CF)[REPLAYING] = b"" if begins else None
    return changes


def is_replaying(store: Store) -> bool:
    """Whether a replay into this state never finished: some of its records may be missing."""
    return store.getter(LOCAL_CF)(REPLAYING) is not None


def _named(store: Store, prefix: bytes) -> list[tuple[bytes, bytes]]:
    return list(store.scan(SYSTEM_CF, prefix, prefix + b"\xff"))
