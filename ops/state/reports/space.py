"""Reports the disk space of a state, also beside a running service: files, uncleaned records, keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from engine.layouts.layout import Kind, Layout
from engine.model import STREAM, ZSET
from engine.store.store import GRAVEYARD_CF, Store
from engine.tables.adoption import open_layout
from engine.tables.expiry_index import due_entries
from engine.tables.graveyard import parse_grave
from engine.tables.system import open_position
from engine.values.encoding import parse_u64
from ops.config import Settings
from ops.progress import Advance, progress
from ops.state.opening.directories import home_of, reading_store
from ops.state.opening.indexed_state import StateStore
from ops.state.reports.space_keys import KeySizes, KeyWalk, SpaceOptions, total_of

_PROGRESS_RECORDS: Final = 1000


class Family(NamedTuple):
    """A column family: bytes of its files; of those what RocksDB takes for live, and how many records it has.

    The last two are RocksDB's estimates. Records that are in the write-ahead log alone have no bytes here.
    """

    bytes: int
    live_bytes: int
    records: int


class Graveyard(NamedTuple):
    """Dead collections whose elements are still stored. `age_ms`: of the oldest, in log time; 0 when there is none.

    `elements` of a large string are its fragments.
    """

    collections: int
    elements: int
    age_ms: int


class Backlog(NamedTuple):
    """Keys that are due, or have fields that are, and still stored; `behind_ms`: since when, in log time."""

    keys: int
    behind_ms: int


@dataclass(frozen=True, slots=True)
class Space:
    """One partition, or several as one.

    Attributes:
        partition: its number; -1 of several.
        next_offset: the position that this is about; 0 of several.
        families: by name.
        wal_bytes: of the write-ahead logs.
        reclaimable_bytes: an estimate of what cleaning and compaction would give back.
    """

    partition: int
    next_offset: int
    families: dict[str, Family]
    wal_bytes: int
    reclaimable_bytes: int
    graveyard: Graveyard
    backlog: Backlog
    keys: KeySizes

    @property
    def bytes(self) -> int:
        """Of all files."""
        return self.wal_bytes + sum(family.bytes for family in self.families.values())


def space_of(settings: Settings, partition: int, options: SpaceOptions, among: str = "") -> Space:
    """What takes the room of one partition as of now, with progress.

    Args:
        settings: where it is.
        partition: its number.
        options: of the walk over its keys.
        among: which one of several it is, for the progress.

    Raises:
        ConfigError: there is no state of that partition, or a replay into it never finished.
        StateMismatchError: the state is of something else.
        CorruptionError, Exception: it is damaged, as `engine.store.store.is_damage` tells.
    """
    with reading_store(settings, partition) as store:
        return _measured(store, settings, partition, options, f"partition {partition}{among}")


def sum_of(spaces: list[Space], top: int) -> Space:
    """Several partitions as one, with as many of the largest keys as `top` says."""
    families: dict[str, Family] = {}
    for space in spaces:
        for name, family in space.families.items():
            before = families.get(name, Family(0, 0, 0))
            families[name] = Family(*map(sum, zip(before, family, strict=True)))
    return Space(
        partition=-1,
        next_offset=0,
        families=families,
        wal_bytes=sum(space.wal_bytes for space in spaces),
        reclaimable_bytes=sum(space.reclaimable_bytes for space in spaces),
        graveyard=Graveyard(
            sum(space.graveyard.collections for space in spaces),
            sum(space.graveyard.elements for space in spaces),
            max((space.graveyard.age_ms for space in spaces), default=0),
        ),
        backlog=Backlog(
            sum(space.backlog.keys for space in spaces), max((space.backlog.behind_ms for space in spaces), default=0)
        ),
        keys=total_of([space.keys for space in spaces], top),
    )


def _measured(store: StateStore, settings: Settings, partition: int, options: SpaceOptions, job: str) -> Space:
    home = home_of(settings, partition)
    position, layout = open_position(store, home), open_layout(store, home)
    families = _families(store)
    keys, graves = sum(position.counts.values()), families[GRAVEYARD_CF].records
    with progress(f"space of {job}", keys + graves, "keys and graves") as advance:
        graveyard, orphans = _graveyard(store, layout, families, position.clock_ms, advance)
        walk = KeyWalk(store, layout, keys, position.stored_dbs, partition, options)
        found = walk.run(lambda done: advance(graveyard.collections + done))
    obsolete = sum(max(0, family.bytes - family.live_bytes) for family in families.values())
    return Space(
        partition=partition,
        next_offset=position.next_offset,
        families=families,
        wal_bytes=store.wal_bytes(),
        reclaimable_bytes=obsolete + orphans,
        graveyard=graveyard,
        backlog=_backlog(store, position.clock_ms),
        keys=found,
    )


def _families(store: StateStore) -> dict[str, Family]:
    return {
        name: Family(each["total-sst-files-size"], each["estimate-live-data-size"], each["estimate-num-keys"])
        for name, each in store.properties().items()
    }


def _graveyard(
    store: Store, layout: Layout, families: dict[str, Family], clock_ms: int, advance: Advance
) -> tuple[Graveyard, int]:
    """All graves, and an estimate of the bytes on disk of what is stored under them: as many records at the mean."""
    collections = elements = scored = streamed = 0
    oldest_ms = clock_ms
    for record, content in store.scan(GRAVEYARD_CF, b"", None):
        grave = parse_grave(record, content)
        oldest_ms = min(oldest_ms, grave.died_ms)
        elements += grave.elements
        scored += grave.elements if grave.type == ZSET else 0
        streamed += grave.elements if grave.type == STREAM else 0
        collections += 1
        if collections % _PROGRESS_RECORDS == 0:
            advance(collections)
    data, scores, stream = (_mean(families, layout, kind) for kind in (Kind.DATA, Kind.SCORES, Kind.STREAM))
    orphans = data * (elements - streamed) + scores * scored + stream * streamed
    return Graveyard(collections, elements, clock_ms - oldest_ms), int(orphans)


def _mean(families: dict[str, Family], layout: Layout, kind: Kind) -> float:
    """Live bytes on disk of a record of this kind; 0 where the layout has none."""
    family = families.get(layout.families.get(kind, ""))
    return family.live_bytes / family.records if family is not None and family.records else 0.0


def _backlog(store: Store, clock_ms: int) -> Backlog:
    """The entries of the expiry index up to the clock."""
    keys, first_ms = 0, clock_ms
    for entry in due_entries(store, clock_ms):
        first_ms = min(first_ms, parse_u64(entry[:8]))
        keys += 1
    return Backlog(keys, clock_ms - first_ms)
