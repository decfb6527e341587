"""Chooses which snapshot to restore, and says why the others are not taken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from engine.tables.system import Home
from ops.snapshots.manifest import Manifest, refusal
from ops.snapshots.store import Listed


@dataclass(frozen=True, slots=True)
class Wanted:
    """The snapshots that would do.

    Attributes:
        home: the state; None: any that this slotlog can read.
        offset: it has applied nothing from there on; None: any.
        time_ms: nor anything of a time from then on; None: any.
        begin_offset: it has applied everything before, as the log begins there.
    """

    home: Home | None = None
    offset: int | None = None
    time_ms: int | None = None
    begin_offset: int = 0


class Refused(NamedTuple):
    """A snapshot that is not taken, and why."""

    snapshot: Listed
    reason: str


def choose(snapshots: Sequence[Listed], wanted: Wanted) -> tuple[list[Listed], list[Refused]]:
    """The snapshots of one partition that would do, the newest first, and the others."""
    good: list[Listed] = []
    refused: list[Refused] = []
    for snapshot in sorted(snapshots, key=lambda each: each.order, reverse=True):
        if reason := _refusal(snapshot, wanted):
            refused.append(Refused(snapshot, reason))
        else:
            good.append(snapshot)
    return good, refused


def _refusal(snapshot: Listed, wanted: Wanted) -> str:
    manifest = snapshot.manifest
    if manifest is None:
        return snapshot.trouble
    if text := refusal(manifest, wanted.home or manifest.home):
        return text
    if not snapshot.is_verified:
        return "it is not verified"
    return next((text(manifest, wanted) for misses, text in _BOUNDS if misses(manifest, wanted)), "")


_Misses = Callable[[Manifest, Wanted], bool]
_Text = Callable[[Manifest, Wanted], str]

_BOUNDS: tuple[tuple[_Misses, _Text], ...] = (
    (
        lambda manifest, wanted: manifest.next_offset < wanted.begin_offset,
        lambda manifest, wanted: f"it stands before the log's begin at offset {wanted.begin_offset}",
    ),
    (
        lambda manifest, wanted: wanted.offset is not None and manifest.next_offset > wanted.offset,
        lambda manifest, wanted: f"it is after offset {wanted.offset}",
    ),
    (
        lambda manifest, wanted: wanted.time_ms is not None and manifest.clock_ms >= wanted.time_ms,
        lambda manifest, wanted: f"its clock is {manifest.clock_ms} ms, not before {wanted.time_ms}",
    ),
)
