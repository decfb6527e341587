"""Counts what an import has carried over, and lists what it has left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from ops.importing.libraries import LIBRARY
from ops.importing.source import LeftOut

SHOWN_MAX: Final = 20


@dataclass(slots=True)
class Imported:
    """The results of an import, kept up to date while it runs.

    Attributes:
        types: keys by type; those that are no more as DELETED.
        events: appended; 0 in a dry run.
        earlier_keys: that an earlier run has appended.
        left_out: what was left out, by what it is.
        first_left_out: the first of these, at most SHOWN_MAX.
        failure: why it ended early; empty otherwise.
        notes: what else users should know.
        listing: told of each thing that was left out; None: nobody is.
    """

    types: Counter[str] = field(default_factory=Counter)
    events: int = 0
    earlier_keys: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    first_left_out: list[LeftOut] = field(default_factory=list)
    failure: str = ""
    notes: list[str] = field(default_factory=list)
    listing: Callable[[LeftOut], None] | None = None

    @property
    def keys(self) -> int:
        """Keys that were carried over: libraries of functions are none."""
        return self.types.total() - self.types[LIBRARY]

    def note(self, types: Iterable[str], events: int) -> None:
        """Keys of these types were carried over."""
        self.types.update(types)
        self.events += events

    def note_left_out(self, left_out: Iterable[LeftOut]) -> None:
        """These were not."""
        for each in left_out:
            self.left_out[each.what] += 1
            if len(self.first_left_out) < SHOWN_MAX:
                self.first_left_out.append(each)
            if self.listing is not None:
                self.listing(each)
