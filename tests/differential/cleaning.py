"""Cleaning between the commands of a sequence, and the same sequence without it: the same bytes in the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from engine.apply.machine import Machine, Record
from engine.cleaning.all import clean_all
from engine.cleaning.reclaim import Reclaimer
from engine.cleaning.sweep import Sweeper
from engine.proof.digest import digest
from engine.proof.walk import raw_records
from engine.store.memory import MemoryStore
from engine.store.store import Store
from tests.layouts import column_families, layout_of

_LAYOUT: Final = layout_of()
_SLICES: Final = (1, 2, 1, 999, 20)
"""Keys or records that a slice may remove."""


class Slices:
    """The cleaning of one partition, a slice at a time: which one, and how large, follows from the step's place."""

    def __init__(self, machine: Machine, store: Store) -> None:
        self._sweeper = Sweeper(machine, store)
        self._reclaimer = Reclaimer(machine, store)

    def is_time(self, place: int) -> bool:
        """Whether to commit and clean after this step: after some of them, so that there are batches as well."""
        return place % 3 == 0 or place % 10 == 4

    def clean(self, place: int) -> None:
        """A slice of each kind, of a partition that is settled."""
        self._sweeper.expire(_SLICES[place % len(_SLICES)])
        self._reclaimer.reclaim(_SLICES[place // 3 % len(_SLICES)])
        self._sweeper.forget()


def check_uncleaned(machine: Machine, store: Store, records: Sequence[Record]) -> None:
    """Apply `records` again to an empty store without any cleaning, and clean both up at the end.

    Raises:
        AssertionError: the two differ in a digest, or in any record.
    """
    other_store = MemoryStore(column_families())
    other = Machine(other_store, machine.home)
    while records:
        applied = other.apply(records, other.next_offset)
        records = records[applied.records :]
    other.commit(b"fingerprint")
    before = digest(other_store, _LAYOUT, other.clock_ms)
    assert before == digest(store, _LAYOUT, machine.clock_ms), "cleaning has changed the digest"
    for one, its_store in ((machine, store), (other, other_store)):
        clean_all(one, its_store)
    assert before == digest(other_store, _LAYOUT, other.clock_ms), "a full clean has changed the digest"
    here, there = (set(raw_records(each, _LAYOUT)) for each in (store, other_store))
    assert here == there, f"cleaned on the way {sorted(here - there)[:3]}, at the end alone {sorted(there - here)[:3]}"
