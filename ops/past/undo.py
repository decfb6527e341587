"""Appends the events that put keys back as they were at a moment."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain

from engine.model import TYPE_NAMES
from engine.proof.digest import key_digest
from engine.proof.walk import LiveKey, live_keys
from engine.values.encoding import pack_u64
from ops.config import Settings
from ops.importing.batches import batches
from ops.importing.key_events import contents_of, events_of, too_large
from ops.importing.source import ImportKey, LeftOut
from ops.past.walk import Past, apply_all, walked
from ops.sending.target import opened_target
from ops.state.rebuilding.replay_plan import Until
from slotlog.clock import WallClock

_DELETED = "deleted"
"""What stands for the type of a key that was not there then, in the counts of a batch."""

_NOW = Until()

Digests = dict[bytes, int]
"""By name: the digest of a key."""


@dataclass(slots=True)
class Undone:
    """The result of an undo, or what a dry run would do.

    Attributes:
        restored: keys that are again as they were.
        deleted: keys that were not there then.
        equal: how many keys were as they are.
        expired: keys that had a time to live then that has passed; without `persist` they are not there afterwards.
        left_out: keys that no event can bring back, and why; they are as they were before the undo.
        events: how many were appended.
    """

    restored: list[bytes] = field(default_factory=list)
    deleted: list[bytes] = field(default_factory=list)
    equal: int = 0
    expired: list[bytes] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    events: int = 0


@dataclass(frozen=True, slots=True)
class Selection:
    """The keys to put back.

    Attributes:
        db: their logical database.
        matches: whether a name is one of theirs.
        persist: put them back without their times to live.
    """

    db: int
    matches: Callable[[bytes], bool]
    persist: bool = False

    def of(self, past: Past) -> Iterator[LiveKey]:
        """Those that are alive in a state, with the times to live that they are to have."""
        for key in live_keys(past.store, past.machine.layout, past.machine.clock_ms):
            if key.db == self.db and self.matches(key.name):
                yield key._replace(expire_ms=0, field_times=()) if self.persist else key


async def undo(
    settings: Settings,
    partition: int,
    until: Until,
    selection: Selection,
    undone: Undone,
    *,
    dry_run: bool = False,
    time_ms: int | None = None,
) -> None:
    """Append to `partition` what makes the selected keys those that they were at `until`.

    The keys are compared with those at the log's end. What others write to them meanwhile is overwritten.

    Args:
        settings: the log, and where snapshots are.
        partition: of the topic.
        until: the moment.
        selection: of the keys.
        undone: what was done is added to it, so that it is right even after an interruption.
        dry_run: append nothing.
        time_ms: of the events, for an embedded log whose time is not that of the wall clock; None: now.

    Raises:
        As `walked`, and as `opened_target`.
    """
    async with walked(settings, partition, _NOW, apply_all, from_snapshot=True) as present:
        now = _digests(selection, present)
        now_ms = max(present.machine.clock_ms, WallClock().now_ms() if time_ms is None else time_ms)
    async with walked(settings, partition, until, apply_all, from_snapshot=True) as past:
        then, refused = _digests(selection, past), _refused(selection, past)
        undone.left_out += [each for each in refused if now.get(each.name) != then[each.name]]
        different = {name for name, digest in then.items() if digest != now.get(name)}
        wanted = different - {each.name for each in refused}
        undone.equal += len(then) - len(different)
        keys = chain(
            _deletions(selection.db, sorted(now.keys() - then.keys()), undone),
            _brought_back(selection, past, wanted, undone, now_ms),
        )
        if dry_run:
            deque(keys, maxlen=0)
            return
        async with opened_target(settings) as target:
            for batch in batches(keys, settings.partitions):
                if batch.entries:
                    await target.append([entry._replace(time_ms=time_ms) for entry in batch.entries])
                undone.events += len(batch.entries)
                undone.left_out += batch.left_out


def _digests(selection: Selection, past: Past) -> Digests:
    found = {}
    for db, name, type_code, expire_ms, content, field_times in selection.of(past):
        times = (piece for timed, ms in field_times for piece in (timed, pack_u64(ms)))
        found[name] = key_digest(db, name, type_code, expire_ms, chain(content, times))
    return found


def _refused(selection: Selection, past: Past) -> list[LeftOut]:
    """The keys that no event can bring back."""
    found = []
    for key in selection.of(past):
        string_bytes, reason = 0, ""
        for content in contents_of(key):
            reason = reason or too_large(key.name, content, string_bytes)
        if reason:
            found.append(LeftOut(key.db, key.name, TYPE_NAMES[key.type], reason))
    return found


def _deletions(db: int, names: list[bytes], undone: Undone) -> Iterator[ImportKey]:
    for name in names:
        undone.deleted.append(name)
        yield ImportKey(db, name, _DELETED, iter([(b"DEL", [name])]))


def _brought_back(
    selection: Selection, past: Past, names: set[bytes], undone: Undone, now_ms: int
) -> Iterator[ImportKey]:
    for key in selection.of(past):
        if key.name in names:
            undone.restored.append(key.name)
            if 0 < key.expire_ms <= now_ms:
                undone.expired.append(key.name)
            yield ImportKey(
                key.db, key.name, TYPE_NAMES[key.type], events_of(key.name, key.expire_ms, contents_of(key))
            )
