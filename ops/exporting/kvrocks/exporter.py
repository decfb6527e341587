"""Writes keys to a new directory that a Kvrocks opens and serves.

    DIR/db   a plain RocksDB with the column families of Kvrocks 2.10 and no other one

It is written beside its name and gets it at the end, so an export that was broken off leaves nothing that a Kvrocks
would open. A HyperLogLog, which is a string here, becomes one of Kvrocks' own; else PFADD would refuse it there.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import Enum
from itertools import chain
from pathlib import Path
from typing import Final

from engine.layouts.kvrocks.keys import Owner
from engine.model import STREAM
from engine.proof.walk import LiveKey
from engine.store.plain import PlainWriter
from engine.values.stream_records import ENTRIES_END
from ops.config import ConfigError
from ops.exporting.exporter import Export, NotExported, Tell
from ops.exporting.kvrocks.key_records import put_key
from ops.importing.kvrocks.directory import COLUMN_FAMILIES
from ops.importing.kvrocks.namespaces import OWN
from ops.importing.kvrocks.slots import CLUSTER
from slotlog.disk import make_directory, sync
from slotlog.shared.slots import slot

_FINISHED: Final = "db"
_UNFINISHED: Final = "db.unfinished"
_COUNTER_BITS: Final = 11
_NO_LIBRARIES: Final = "how Kvrocks keeps one is not known here; FUNCTION LOAD brings it there"
_NO_TIMES: Final = "Kvrocks 2.10 has none; --field-times drop writes the fields without, keep is for a later Kvrocks"

_LAST_MS: Final = "its last id is of the last millisecond there is: Kvrocks would take such an entry for a group"


class FieldTimesMode(Enum):
    """The choices for hashes whose fields have times to live. Kvrocks 2.10 has none.

    KEEP writes what a Kvrocks with `hash-encoding-mode` reads. An older one would show its clients the times as parts
    of the values.
    """

    LEAVE_OUT = "leave-out"
    DROP = "drop"
    KEEP = "keep"


def kvrocks_export(layout: str, field_times: FieldTimesMode) -> Export:
    """What writes a directory for a Kvrocks.

    Args:
        layout: PLAIN, or CLUSTER for a Kvrocks with `cluster-enabled yes`.
        field_times: what becomes of hashes whose fields have times to live.
    """

    def export(to: Path, keys: Iterable[LiveKey], libraries: Mapping[bytes, bytes], time_ms: int, tell: Tell) -> None:
        refuse_used(to)
        for name in libraries:
            tell(NotExported(None, name, "functions", _NO_LIBRARIES))
        with _unfinished(to) as writer:
            target = _Target(writer, time_ms, tell, has_slot=layout == CLUSTER, field_times=field_times)
            for key in keys:
                target.write(key)

    return export


@contextmanager
def _unfinished(to: Path) -> Iterator[PlainWriter]:
    """A database in `to`, which gets its name when the block has ended, and is removed after an error."""
    made = not to.exists()
    unfinished = to / _UNFINISHED
    try:
        make_directory(to)
        writer = PlainWriter(unfinished, COLUMN_FAMILIES)
        try:
            yield writer
            writer.finish()
        finally:
            writer.close()
        sync(unfinished)
        unfinished.rename(to / _FINISHED)
        sync(to)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        if made:
            with suppress(OSError):  # somebody else has put something there
                to.rmdir()
        raise


class _Target:
    """Takes keys for a database that is being filled."""

    def __init__(
        self, writer: PlainWriter, time_ms: int, tell: Tell, *, has_slot: bool, field_times: FieldTimesMode
    ) -> None:
        self._put = writer.put
        self._tell = tell
        self._has_slot = has_slot
        self._field_times = field_times
        self._version = time_ms * 1000 << _COUNTER_BITS

    def write(self, key: LiveKey) -> None:
        """Write a key, or tell why not. No two have one version: in Kvrocks a key may get the name of another."""
        if key.db and self._has_slot:
            reason = "a Kvrocks with cluster-enabled yes has its default namespace alone"
            self._tell(NotExported(key.db, key.name, "all (other databases)", reason, is_whole_key=True))
            return
        times = iter(key.field_times)
        first = next(times, None)
        if first is not None:
            key = key._replace(field_times=chain([first], times))
            if self._field_times is FieldTimesMode.LEAVE_OUT:
                self._tell(NotExported(key.db, key.name, "all (times of fields)", _NO_TIMES, is_whole_key=True))
                return
            if self._field_times is FieldTimesMode.DROP:
                self._tell(NotExported(key.db, key.name, "times of fields", _NO_TIMES))
                key = key._replace(field_times=())
        if key.type == STREAM:
            last_id = next(key.content)
            if last_id.startswith(ENTRIES_END):
                self._tell(NotExported(key.db, key.name, "all (ids of streams)", _LAST_MS, is_whole_key=True))
                return
            key = key._replace(content=chain([last_id], key.content))
        owner = Owner(OWN[key.db], slot(key.name) if self._has_slot else None, key.name)
        put_key(self._put, owner, self._version, key)
        self._version += 1


def refuse_used(to: Path) -> None:
    """Raise ConfigError unless `to` is empty, or not there."""
    if to.exists() and not to.is_dir():
        raise ConfigError(f"{to} is a file; an export for Kvrocks needs a directory of its own")
    if (to / _UNFINISHED).exists():
        raise ConfigError(f"{to} holds an export that was broken off; remove it, and run `slotlog export` again")
    if to.exists() and any(to.iterdir()):
        raise ConfigError(f"{to} is not empty; an export for Kvrocks needs a directory of its own")
