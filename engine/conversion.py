"""Writes one state anew in another layout: every key, the position, idempotency keys, watches, operators' decisions.

It goes through the same batches as a command, so it knows no layout. Each collection keeps its version, each key its
time of death; one that is due and not removed yet is written, too. What dead collections have left is not, nor a key
that is empty in a layout without counts: the new state has no graves. Memory holds a few MiB at a time, whatever the
size of a collection; of a string all of it, but where both layouts have it in fragments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final

from engine.batch.keys import fragments
from engine.batch.keys.key import Key
from engine.batch.ranks import rank_counts
from engine.batch.variants.indexed import make_families, make_transaction
from engine.batch.variants.uncounted import is_empty
from engine.errors import CommandError, CorruptionError
from engine.layouts import make_layout
from engine.layouts.layout import Form, Layout
from engine.layouts.records import metadata_records
from engine.model import STREAM, STRING, ZSET
from engine.store.store import DEDUP_CF, SYSTEM_CF, Changes, Store
from engine.tables.system import UNSWAPPED, Home, Position, write_home, write_position
from engine.types.stream import stream_index, streams
from engine.values.stream_records import BLOCKS_END

_BATCH_KEYS: Final = 1000
_BATCH_BYTES: Final = 1024 * 1024

Records = Iterable[tuple[bytes, bytes]]
Advance = Callable[[int], None]


def convert(
    source: Store, layout: Layout, position: Position, target: Store, home: Home, advance: Advance = lambda _: None
) -> None:
    """Write what `source` holds into `target`.

    Args:
        source: a state of `layout` at `position`, which nobody writes to meanwhile.
        layout: of the source.
        position: of the source.
        target: an empty store with the column families of the other layout.
        home: what `target` is to be: the topic, partition and number of partitions are those of the source.
        advance: told how many keys are written.

    Raises:
        CommandError: the other layout has no form for a value; the text says which and names the key.
        CorruptionError: stored bytes are damaged, or the source has other keys than it counts.
    """
    keys = _Keys(target, home, position)
    families = make_families(source, layout)
    done, empty = 0, Counter[tuple[int, int]]()
    for done, (metadata_key, value) in enumerate(metadata_records(source, layout), 1):
        db, _, name = layout.parse_metadata_key(metadata_key)
        key = Key(db, name, metadata_key)
        families.load(key, value)
        if is_empty(key):
            empty[db, key.type] += 1
        else:
            keys.write(key)
        if done % _BATCH_KEYS == 0:
            advance(done)
    keys.flush()
    counted = {place: count for place, count in position.counts.items() if count}
    if Counter(keys.counts) + empty != counted:
        raise CorruptionError(f"the state counts {sum(counted.values())} keys and has {done}; see `slotlog check`")
    for changes in _batches(source.scan(DEDUP_CF, b"", None)):
        target.write(changes)
    changes = Changes()
    changes.of(SYSTEM_CF).update(source.scan(SYSTEM_CF, b"", None))
    write_home(changes, home)
    counts = {**dict.fromkeys(position.counts, 0), **keys.counts}  # also over what the source counts and is empty
    write_position(changes, replace(position, last_version=keys.last_version, counts=counts), position)
    target.write(changes)


class _Keys:
    """Writes keys into an empty store, in batches."""

    def __init__(self, target: Store, home: Home, position: Position) -> None:
        self._target = target
        # Databases by their stored numbers, and no time: so a new collection takes the version behind `last_version`.
        self._tx = make_transaction(
            target,
            make_layout(home.layout, home.partition, home.partitions),
            home.partition,
            counts={},
            last_version=position.last_version,
            rules=position.rules,
            stored_dbs=UNSWAPPED,
            key_cache_bytes=0,
        )
        self._pending_keys = self._pending_bytes = 0

    @property
    def counts(self) -> dict[tuple[int, int], int]:
        """How many keys are written, by stored database and type."""
        return self._tx.counts

    @property
    def last_version(self) -> int:
        """The newest version: the source's, or of a large string that had none there."""
        return self._tx.last_version

    def write(self, source: Key) -> None:
        """Write a key as it is in the source, whose layout `source` knows."""
        self._tx.begin(0, 0, source.db)
        if source.type == STRING:
            self._write_string(source)
        else:
            self._write_collection(source)
        self._pending_keys += 1
        if self._pending_keys >= _BATCH_KEYS or self._pending_bytes >= _BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what is pending."""
        self._target.write(self._tx.changes())
        self._tx.reset(written=True)
        self._pending_keys = self._pending_bytes = 0

    def _write_string(self, source: Key) -> None:
        tx, size = self._tx, fragments.length(source)
        self._pending_bytes += min(size, _BATCH_BYTES)
        if not source.version or not fragments.is_fragmented(size, tx.forms):
            tx.put_string(source.name, fragments.read(source, 0, size), source.expire_ms)
            return
        key = self._create(source)
        tx.fill(key, key.data, source.data.scan())

    def _write_collection(self, source: Key) -> None:
        tx, times = self._tx, source.times
        if source.type == STREAM:
            self._write_stream(source)
            return
        key = self._create(source)
        if times is not None and (times.timed or Form.FIELD_TIMES in tx.forms):
            self._require(Form.FIELD_TIMES, source)
            tx.start_times(key)
            assert key.times is not None, "just started"
            key.times.timed, key.times.soonest_ms = times.timed, times.soonest_ms
            key.times.own_expire_ms = times.own_expire_ms
            # Before the fields: in some layouts the value of a field says when it dies.
            tx.fill(key, key.times.subkeys, self._weighed(times.subkeys.scan()))
        tx.fill(key, key.data, self._weighed(source.data.scan()))
        if source.type == ZSET:
            tx.fill(key, key.scores, self._weighed(source.scores.scan()))
            self._write_ranks(key, source)

    def _write_stream(self, source: Key) -> None:
        """Write a stream, whose records are the same in every layout, and count its entries where that is new."""
        self._require(Form.STREAMS, source)
        key = self._create(source)
        mine, its = streams.parts(key), streams.parts(source)
        mine.restore(its.state())
        self._tx.fill(key, mine.records, self._weighed(its.records.scan()))
        self._tx.fill(key, mine.index, self._weighed(its.index.scan(BLOCKS_END)))
        self._tx.fill(key, mine.index, stream_index.counted(self._tx, mine, streams.entries(source)))

    def _write_ranks(self, key: Key, source: Key) -> None:
        """Take over rank counts, or make those that the source's layout has no form for."""
        if source.ranks is not None and Form.RANK_COUNTS in self._tx.forms:
            self._tx.fill(key, self._tx.start_ranks(key), source.ranks.scan())
        elif rank_counts.is_counted(source.size, self._tx.forms):
            scores = (score_key for score_key, _ in source.scores.scan())
            rank_counts.build(self._tx.start_ranks(key), scores, source.size)

    def _create(self, source: Key) -> Key:
        """The same key with the same version, without subkeys."""
        tx = self._tx
        last_version, tx.last_version = tx.last_version, source.version - 1
        key = tx.create(source.name, source.type)
        tx.last_version = max(last_version, key.version)
        key.expire_ms, key.size, key.head, key.tail = source.expire_ms, source.count(), source.head, source.tail
        return key

    def _require(self, form: Form, source: Key) -> None:
        try:
            self._tx.require(form)
        except CommandError as error:
            shown = source.name.decode(errors="backslashreplace")
            raise CommandError(f"{error}, which the key {shown} of database {source.db} has") from error

    def _weighed(self, records: Records) -> Iterator[tuple[bytes, bytes]]:
        for record in records:
            self._pending_bytes += len(record[0]) + len(record[1])
            yield record


def _batches(records: Records) -> Iterator[Changes]:
    """Batches of the records of `dedup` as they are, of a MiB each."""
    changes, size = Changes(), 0
    for key, value in records:
        changes.of(DEDUP_CF)[key] = value
        size += len(key) + len(value)
        if size >= _BATCH_BYTES:
            yield changes
            changes, size = Changes(), 0
    yield changes
