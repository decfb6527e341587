"""Cleans one partition in one go, for tests and a full clean. A service does it in slices.

Afterwards two states that have applied the same records have the same bytes, whatever was cleaned before and when, but
for the node-local column family.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from engine.apply.machine import Machine
from engine.cleaning.reclaim import Reclaimer
from engine.cleaning.sweep import Sweeper
from engine.store.store import Store

_KEYS_MAX: Final = 1000
_RECORDS_MAX: Final = 10_000


class Gone(NamedTuple):
    """Counts of a full clean.

    Attributes:
        keys: that were due.
        fields: of hashes, that were due.
        graves: dead collections.
        records: their elements.
        dedup_buckets: days of idempotency keys past their window.
        sessions: that had lost a watch long ago.
    """

    keys: int
    fields: int
    graves: int
    records: int
    dedup_buckets: int
    sessions: int


def clean_all(machine: Machine, store: Store, tell: Callable[[Gone], None] = lambda _: None) -> Gone:
    """Remove everything that is due, dead or forgotten at the partition's clock. Nothing is compacted.

    Args:
        machine: of the partition.
        store: of the machine.
        tell: called after each slice with what is gone so far, which is in the store then.

    Raises:
        ValueError: the machine is not settled.
        StoreBusyError: some of it is done; call again.
        Exception: as `Machine.commit`.
    """
    sweeper, reclaimer = Sweeper(machine, store), Reclaimer(machine, store)
    keys = fields = graves = records = 0
    more = True
    while more:
        swept = sweeper.expire(_KEYS_MAX)
        keys += len(swept.keys)
        fields += sum(number for _, _, number in swept.fields)
        more = swept.more
        tell(Gone(keys, fields, graves, records, 0, 0))
    buckets = sessions = 0
    more = True
    while more:
        forgotten = sweeper.forget()
        buckets += forgotten.dedup_buckets
        sessions += forgotten.sessions
        more = forgotten.more
        tell(Gone(keys, fields, graves, records, buckets, sessions))
    more = True
    while more:
        reclaimed = reclaimer.reclaim(_RECORDS_MAX)
        graves += reclaimed.graves
        records += reclaimed.records
        more = reclaimed.more
        tell(Gone(keys, fields, graves, records, buckets, sessions))
    return Gone(keys, fields, graves, records, buckets, sessions)
