"""Copies the keys of a topic into a new one of another number of partitions, and proves the copy.

A log is never cut anew: its events were applied with what they met in their own partition. So the new topic begins
with the keys as they are, and the old one is kept for what was before. Nothing may be written meanwhile: the old log
must end where the state stands, before the copy and after it.

Not carried over: idempotency keys, watches, dead letters, scripts that are no library.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

from engine.model import TYPE_NAMES
from engine.proof.digest import Digest, key_digest
from engine.proof.walk import live_keys
from engine.values.encoding import pack_u64
from ops.config import ConfigError, Settings
from ops.importing.batches import batches
from ops.importing.key_events import contents_of, events_of
from ops.importing.libraries import library
from ops.importing.source import ImportKey, LeftOut
from ops.progress import Advance, progress
from ops.sending.target import Target, opened_target
from ops.snapshots.starting import start_from_snapshot
from ops.state.opening.directories import reading
from ops.state.rebuilding.replay import replay_at_once
from ops.state.rebuilding.replay_plan import Until
from ops.state.reports.standing import log_ends, standing_of
from slotlog.wording import counted


@dataclass(frozen=True, slots=True)
class Repartitioned:
    """The copy.

    Attributes:
        keys: that are alive in both.
        events: in the new topic.
        digest: of these keys, which both have.
    """

    keys: int
    events: int
    digest: Digest


def repartition(old: Settings, new: Settings, to: Path) -> Repartitioned:
    """Fill the new topic, and build its state in `to`.

    Args:
        old: the topic and its state, of which nothing is changed.
        new: the log, the topic and its partitions; the topic is made, or empty.
        to: a new directory.

    Raises:
        ConfigError: nothing can be copied, or the copy is not whole: then the new topic is to be deleted.
    """
    ends = _ends_of_applied(old)
    _refuse_databases(old, new)
    events = asyncio.run(_copy(old, new))
    if (now := _ends_of_applied(old)) != ends:
        came = sum(now[partition] - ends[partition] for partition in ends)
        raise _unfinished(new, f"{counted(came, 'event')} came into {old.topic} meanwhile: stop whoever writes there")
    with TemporaryDirectory() as nothing:
        replay_at_once(new.model_copy(update={"data": Path(nothing)}), to, Until(), start=start_from_snapshot)
    built = new.model_copy(update={"data": to})
    at_ms = max(_clock_ms(old), _clock_ms(built))
    here, there = _digest(old, at_ms), _digest(built, at_ms)
    if here != there:
        raise _unfinished(new, f"its {there.keys} keys have the digest {there}, and the {here.keys} of the old {here}")
    return Repartitioned(here.keys, events, here)


def _unfinished(new: Settings, why: str) -> ConfigError:
    return ConfigError(f"{why}. Delete the topic {new.topic}, which is not whole, and run the command again")


def _ends_of_applied(old: Settings) -> dict[int, int]:
    """Where the log ends, which is where the state of each partition stands.

    Raises:
        ConfigError: the state does not have all that is in the log, or the log does not answer.
    """
    ends = log_ends(old, old.owned, written=True)
    if ends.unknown:
        raise ConfigError(f"it is not known where the log of {old.topic} ends: {ends.unknown}")
    for partition in old.owned:
        with reading(old, partition) as (_, machine):
            standing = standing_of(old, ends, partition, machine.next_offset)
        if standing.end_offset != standing.next_offset:
            raise ConfigError(
                f"partition {partition} is not where its log ends ({standing.text()}): stop whoever writes, let the"
                " service apply all, and stop it; or build a state with `slotlog replay --to DIR`, and use it as --data"
            )
    return ends.offsets


def _refuse_databases(old: Settings, new: Settings) -> None:
    """Refuse keys that a cluster has no place for.

    Raises:
        ConfigError: there are keys in other databases than 0.
    """
    if new.partitions == 1:
        return
    for partition in old.owned:
        with reading(old, partition) as (_, machine):
            others = sorted({db for (db, _), count in machine.key_counts.items() if db and count})
        if others:
            raise ConfigError(
                f"there are keys in database {', '.join(map(str, others))}, and with several partitions there is"
                " database 0 alone: move them first"
            )


async def _copy(old: Settings, new: Settings) -> int:
    """Append what builds each key; returns the number of events.

    Raises:
        ConfigError: the topic is not empty, or something cannot be an event.
    """
    events = 0
    async with _empty_target(new) as target:
        with reading(old, old.owned[0]) as (_, machine):
            libraries = [library(name, code) for name, code in machine.kept[1].codes.items()]
        with progress("repartition", _count(old), "keys") as advance:
            for batch in batches(chain(libraries, _keys(old, advance)), new.partitions):
                if batch.left_out:
                    left = batch.left_out[0]
                    raise _unfinished(new, f"{left.what} {left.name.decode(errors='backslashreplace')}: {left.reason}")
                if batch.entries:
                    await target.append(batch.entries)
                    events += len(batch.entries)
    return events


@asynccontextmanager
async def _empty_target(new: Settings) -> AsyncIterator[Target]:
    async with opened_target(new) as target:
        for partition in range(new.partitions):
            if await target.log.end_offset(partition):
                raise ConfigError(
                    f"the topic {new.topic} has records already: name a new one, or delete it if an earlier run made it"
                )
        yield target


def _count(settings: Settings) -> int:
    keys = 0
    for partition in settings.owned:
        with reading(settings, partition) as (_, machine):
            keys += sum(machine.key_counts.values())
    return keys


def _clock_ms(settings: Settings) -> int:
    found = 0
    for partition in settings.owned:
        with reading(settings, partition) as (_, machine):
            found = max(found, machine.clock_ms)
    return found


def _keys(settings: Settings, advance: Advance) -> Iterator[ImportKey | LeftOut]:
    done = 0
    for partition in settings.owned:
        with reading(settings, partition) as (store, machine):
            for key in live_keys(store, machine.layout, machine.clock_ms):
                events = events_of(key.name, key.expire_ms, contents_of(key))
                yield ImportKey(key.db, key.name, TYPE_NAMES[key.type], events)
                done += 1
                advance(done)


def _digest(settings: Settings, at_ms: int) -> Digest:
    """Of the keys that are alive at a time, whichever partitions they are in."""
    found = Digest()
    for partition in settings.owned:
        with reading(settings, partition) as (store, machine):
            for key in live_keys(store, machine.layout, at_ms):
                times = (piece for field, ms in key.field_times for piece in (field, pack_u64(ms)))
                value = key_digest(key.db, key.name, key.type, key.expire_ms, chain(key.content, times))
                found += Digest(value, 1)
    return found
