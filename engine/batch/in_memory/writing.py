"""Turns the keys of a batch into records: metadata, subkeys, expiry entries, range deletes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from struct import error as StructError  # noqa: N812 - the module's own name, `error`, says nothing here
from types import ModuleType
from typing import Final

from engine.batch.in_memory.families import KEPT_TYPES
from engine.batch.in_memory.listings import Listings
from engine.batch.in_memory.memory import UNIT_SHIFT, WEIGHTS, PackedMemory
from engine.batch.keys.key import Key
from engine.batch.overlaid import DICT_SUBKEYS_MAX, KEPT_SUBKEYS_MAX
from engine.batch.ranks.rank_counts import check_total
from engine.layouts.layout import Kind, Layout
from engine.layouts.records import all_records
from engine.model import LIST, NONE, STREAM, STRING, TYPE_NAMES, ZSET
from engine.store.store import EXPIRY_CF, GRAVEYARD_CF, Changes, Store
from engine.tables.compaction_notes import DeletedRange, delete_range
from engine.tables.expiry_index import move_entry
from engine.tables.graveyard import Grave, pack_grave
from engine.values.encoding import U64, prefix_end
from slotlog.shared.errors import InvariantError

_ABOVE_ALL_EXPIRY: Final = b"\xff" * 9  # an entry begins with eight bytes of time


def write_keys(  # noqa: C901 - one more call for each key would cost 0.1 us
    keys: Iterable[Key], layout: Layout, changes: Changes, last_version: int
) -> tuple[int, int]:
    """Add what has changed of `keys` to a batch. Hot path: one pass over every key that the batch has looked at.

    What is asked of each key costs 0.2 to 1.2 % of the instructions of an event (SET, HSET, INCR, ZADD, LPUSH).
    Subkeys are kept in memory here, while the batch is still in the processor's caches: behind RocksDB's write it takes
    0.3 us more for each key (HSET, ZADD). A batch that is not written is written again, or forgotten with its keys.

    Returns how many more subkeys are kept in dicts, and by how much the keys are heavier (see memory.py).

    Raises:
        InvariantError: a key cannot be as it is, where `last_version` is the newest version taken.
    """
    families = layout.families
    metadata = changes.of(families[Kind.METADATA])
    data, scores = changes.of(families[Kind.DATA]), changes.of(families[Kind.SCORES])
    expiry = changes.of(EXPIRY_CF)
    pack_metadata = layout.pack_metadata
    more = heavier = 0
    for key in keys:
        type_code, version = key.type, key.version
        if key.changed or not key.weight:
            weight = WEIGHTS[type_code] + (2 * len(key.name) + len(key.value) >> UNIT_SHIFT)
            heavier += weight - key.weight
            key.weight = weight
        place = key.expire_ms if key.times is None else key.place
        if key.changed:
            try:
                metadata[key.metadata_key] = None if type_code == NONE else pack_metadata(key)
            except StructError as error:  # a number below 0, found for nothing
                raise broken(key, last_version) from error
            if key.indexed_expire_ms != place:
                if key.expire_ms > 0 and not place:
                    raise broken(key, last_version)
                move_entry(expiry, key.metadata_key, key.indexed_expire_ms, place)
            if version:
                if (not key.size and type_code != STREAM) or (type_code == LIST and key.tail - key.head != key.size):
                    raise broken(key, last_version)
            elif type_code > STRING or (place and not type_code):
                raise broken(key, last_version)
        elif key.indexed_expire_ms != place:
            raise InvariantError(f"a key is to die at {place} and is listed at {key.indexed_expire_ms}, unchanged")
        if version:
            subkeys = key.data  # written out, as most keys of a batch have changed one subkey: a call costs 0.1 us
            if subkeys.fresh and version > last_version:  # of others it was asked when they were
                raise broken(key, last_version)
            if type_code in KEPT_TYPES and 0 <= key.size <= KEPT_SUBKEYS_MAX and key.times is None:
                if subkeys.changed:
                    more += subkeys.keep(data)
            else:
                prefix = subkeys.prefix
                for subkey, value in subkeys.changed.items():
                    data[prefix + subkey] = value
                if subkeys.kept is not None or subkeys.packed is not None:
                    more += subkeys.let_go()
            if type_code == ZSET:
                key.scores.add_to(scores)
                if key.ranks is not None:
                    if key.ranks.changed:
                        check_total(key.ranks, key.size)
                    key.ranks.add_to(changes.of(key.ranks.column_family))
            elif key.times is not None:
                if layout.stamps_fields:  # over what stands there since the loop
                    subkeys.add_to(data)
                key.times.subkeys.add_to(changes.of(key.times.subkeys.column_family))
            elif type_code == STREAM:
                for of_stream in key.families():
                    of_stream.add_to(changes.of(of_stream.column_family))
    return more, heavier


def broken(key: Key, last_version: int) -> InvariantError:
    """What to raise for a key that has changed and cannot be as it is."""
    name = TYPE_NAMES[key.type]
    if key.expire_ms < 0 or (key.type == NONE and (key.expire_ms or key.version)):
        return InvariantError(f"a {name} of version {key.version} is to die at {key.expire_ms}")
    if key.expire_ms and not key.place:
        return InvariantError(f"a {name} is to die at {key.expire_ms} and has no place in the expiry index")
    if key.version > last_version:
        return InvariantError(f"a {name} has version {key.version}, and the last one taken is {last_version}")
    if not key.version:
        return InvariantError(f"a {name} has no version")
    if key.type == LIST and key.size != key.tail - key.head:
        return InvariantError(f"a {name} of size {key.size} reaches from {key.head} to {key.tail}")
    return InvariantError(f"a {name} has size {key.size}")


def write_natively(
    hot: ModuleType, keys: list[Key], layout: Layout, changes: Changes, last_version: int, packed: PackedMemory
) -> tuple[int, int]:
    """As `write_keys`, by `hot` (`engine.native.chosen`), in a layout that packs as `neokv`.

    Of large collections subkeys are kept in tables of `packed`, which are not counted here.
    """
    families = layout.families
    metadata = changes.of(families[Kind.METADATA])
    data, scores = changes.of(families[Kind.DATA]), changes.of(families[Kind.SCORES])
    expiry = changes.of(EXPIRY_CF)
    ranks = changes.of(families[Kind.RANKS]) if Kind.RANKS in families else None
    records = metadata, data, scores, expiry, ranks
    at: int = 0
    more: int = 0
    heavier: int = 0
    while True:
        at, kept, weight = hot.write_keys(keys, at, *records, last_version, DICT_SUBKEYS_MAX, packed)
        more, heavier = more + kept, heavier + weight
        if at == len(keys):
            return more, heavier
        kept, weight = write_keys(keys[at : at + 1], layout, changes, last_version)
        more, heavier = more + kept, heavier + weight
        at += 1


def mark_natively(hot: ModuleType, keys: list[Key], listings: Listings) -> None:
    """As `mark_written`, by `hot`."""
    at = 0
    while (at := hot.mark_written(keys, at, listings.held, listings.forget)) < len(keys):
        mark_written(keys[at : at + 1], listings)
        at += 1


def delete_earlier(keys: Iterable[Key], layout: Layout, changes: Changes) -> None:
    """Delete the earlier records of those of `keys` that have changed: `write_keys` puts their metadata."""
    earlier = layout.earlier
    if earlier is not None:
        records = changes.of(layout.families[Kind.EARLIER])
        records.update({earlier.key(key.metadata_key): None for key in keys if key.changed})


def write_earlier(keys: Iterable[Key], layout: Layout, changes: Changes) -> list[Key]:
    """Turn what `write_keys` has put of strings into earlier records, in a layout that writes them. Returns these keys.

    What `delete_earlier` has deleted of them is put again.
    """
    earlier = layout.earlier
    strings = [key for key in keys if key.changed and key.type == STRING and not key.version]
    if earlier is not None and strings:
        metadata, records = changes.of(layout.families[Kind.METADATA]), changes.of(layout.families[Kind.EARLIER])
        for key in strings:
            metadata[key.metadata_key] = None  # a collection may have been there
            records[earlier.key(key.metadata_key)] = earlier.pack(key)
    return strings


def mark_written(keys: Iterable[Key], listings: Listings) -> None:
    """The batch that looked at these keys is written: they are ready for the next one. Hot path, as `write_keys`.

    What they have changed is not as it is listed any more.
    """
    held = listings.held
    for key in keys:
        key.touched = False
        key.changed = False
        key.indexed_expire_ms = key.expire_ms
        if key.version:
            subkeys = key.data  # `Subkeys.written`, without the call
            if held and subkeys.changed:
                listings.forget(subkeys.prefix)
            subkeys.changed.clear()
            subkeys.fresh = False
            if subkeys.order:
                subkeys.order = []
            if key.type == ZSET:
                subkeys = key.scores
                subkeys.changed.clear()
                subkeys.fresh = False
                if subkeys.order:
                    subkeys.order = []
                if key.ranks is not None:
                    key.ranks.written()
            elif key.times is not None:
                key.times.subkeys.written()
                key.indexed_expire_ms = key.place
            elif key.type == STREAM:
                for subkeys in key.families():
                    subkeys.written()


def bury_subkeys(key: Key, now_ms: int, last_version: int, changes: Changes) -> None:
    """Take the subkeys from `key`, which dies: they become orphans with a graveyard entry.

    What is not written of them is written all the same: with smaller batches it would have been, and the bytes on disk
    must not depend on where a batch ended.

    Raises:
        InvariantError: its version was never taken, or its size cannot be: the grave would be that of another one.
    """
    if key.version > last_version or key.size < 0:
        raise broken(key, last_version)
    for subkeys in key.families():
        subkeys.add_to(changes.of(subkeys.column_family))
    size = key.size if key.stream is None else key.size + key.stream.groups  # without both it has no records
    if size:
        grave, content = pack_grave(Grave(now_ms, key.version, key.type, size, key.metadata_key))
        changes.of(GRAVEYARD_CF)[grave] = content
    key.version = 0
    key.ranks = key.times = key.stream = None


def delete_databases(
    databases: Sequence[int], new: Sequence[int] | None, layout: Layout, store: Store, changes: Changes
) -> None:
    """Delete all records of these databases, given by their stored numbers.

    By range deletes alone, when no other database has keys left: then `new` is None. The expiry index is ordered by
    time, so one database's entries have no range of their own: if others have keys, the index is walked, and each entry
    of those databases deleted that are `new` to this batch.
    """
    for db in databases:
        for kind in layout.families:
            _, column_family, prefix = all_records(layout, kind, db)
            delete_range(changes, DeletedRange(column_family, prefix, prefix_end(prefix)))
            records = changes.of(column_family)
            for record in [record for record in records if record.startswith(prefix)]:
                del records[record]
    if new is None:
        delete_range(changes, DeletedRange(EXPIRY_CF, b"", _ABOVE_ALL_EXPIRY))
    elif new:
        prefixes = tuple(layout.kind_prefix(Kind.METADATA, db) for db in new)
        entries = changes.of(EXPIRY_CF)
        for entry, _ in store.scan(EXPIRY_CF, b"", None):
            if entry.startswith(prefixes, U64.size):
                entries[entry] = None


def image(keys: Iterable[Key], layout: Layout) -> list[object]:
    """Everything that `write_keys` would write, to be compared with another image."""
    images: list[tuple[object, ...]] = [
        (key.db, key.name, layout.pack_metadata(key), *(dict(subkeys.changed) for subkeys in key.families()))
        if key.version
        else (key.db, key.name, key.type, key.expire_ms, key.value)
        for key in keys
        if key.changed or any(subkeys.changed for subkeys in key.families())
    ]
    return [*sorted(images, key=itemgetter(0, 1))]  # by name: a value may be long
