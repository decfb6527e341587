"""Checks the embedded log for damage, also beside a running service."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from copy import copy
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from sqlite3 import Connection
from time import sleep
from typing import Final

from ops.config import ConfigError, Settings
from ops.progress import Advance, progress
from slotlog.errors import LogDamagedError
from slotlog.log import embedded_path
from slotlog.log.embedded.file.file import FORMAT, Identity, connect, read_identity, steadily_here
from slotlog.log.embedded.proof.mark import HeadMark
from slotlog.log.embedded.proof.scan import Damage, PartitionScan, scan_file, scan_letters
from slotlog.log.embedded.proof.shortened import connect_shortened, shortened

_SLICE_ROWS: Final = 10_000
_SLICE_BYTES: Final = 16 * 1024 * 1024
_AGAIN_SECONDS: Final = 0.1
_BRING_BACK: Final = (
    "Bring the file back from a backup (`slotlog backup`) or another copy, and keep the states that were built from it:"
    " what they have applied is whole, and `slotlog snapshot` copies them"
)


@dataclass(frozen=True, slots=True)
class CheckedLog:
    """The result for one partition: its intact records, its begin and its end."""

    partition: int
    next_offset: int
    records: int
    damages: int


def check_log(settings: Settings, say: Callable[[Damage], None]) -> tuple[Sequence[CheckedLog], int]:
    """Look through the log, with progress; `say` is called with each damage. Its partitions, and all damages' number.

    Raises:
        ConfigError: it is Kafka, whose brokers check their own records, or one of an older format.
        LogMismatchError, LogUnavailableError: it cannot be opened. LogDamagedError: and so nothing of it is looked at.
    """
    path = embedded_path(settings.log_url)
    if path is None:
        raise ConfigError("Kafka's brokers and clients check each record themselves: --log is for the embedded log")
    try:
        connection, missing = _opened(path)
        with closing(connection):
            identity = sealed_identity(connection, path)
            for damage in missing:
                say(damage)
            with progress("check", None, "records") as advance:
                results, found = look_through(connection, identity.partitions, say, advance)
            return results, found + len(missing)
    except LogDamagedError as error:
        raise LogDamagedError(
            f"nothing of the log {path} can be looked at, as it does not say what it holds: {error.reason}."
            f" {_BRING_BACK}"
        ) from error


def _opened(path: Path) -> tuple[Connection, Sequence[Damage]]:
    """A connection, and what is missing at the end of the file, with which SQLite does not open it otherwise."""
    try:
        HeadMark(path).refuse_behind()
        return connect(path, change=False), ()
    except LogDamagedError:
        missing = shortened(path)
        if missing is None:
            raise
    return connect_shortened(path), (missing,)


def sealed_identity(connection: Connection, path: Path) -> Identity:
    """Which log it is, if its records have the checksums that this version knows.

    Raises:
        ConfigError: it is of an older format.
    """
    identity = steadily_here(lambda: read_identity(connection, path), path)
    if identity.format != FORMAT:
        raise ConfigError(
            f"{path} has format {identity.format}, and this version holds records against the checksums of "
            f"format {FORMAT}. `slotlog serve` makes it one of that at its start; from then on damage shows"
        )
    return identity


def look_through(
    connection: Connection, partitions: int, say: Callable[[Damage], None], advance: Advance
) -> tuple[Sequence[CheckedLog], int]:
    """Look through a log that is open; `say` is called with each damage. Its partitions, and all damages' number."""
    results: list[CheckedLog] = []
    found = done = 0

    def note(damage: Damage) -> None:
        nonlocal found
        found += damage.records
        say(damage)

    for partition in range(partitions):
        before = found
        scan = PartitionScan(partition)
        while not scan.is_done:
            scan, damages = _looked(connection, scan)
            for damage in damages:
                note(damage)
            advance(done + scan.records)
        done += scan.records
        results.append(CheckedLog(partition, scan.end_offset, scan.records, found - before))
    for damage in _again(lambda: chain(scan_letters(connection), scan_file(connection, partitions))):
        note(damage)
    return results, found


def _looked(connection: Connection, scan: PartitionScan) -> tuple[PartitionScan, Sequence[Damage]]:
    """The next slice; once more where something is damaged, as the disk may have failed to read it once."""
    before = copy(scan)
    damages, _ = scan.slice(connection, _SLICE_ROWS, _SLICE_BYTES)
    if damages:
        sleep(_AGAIN_SECONDS)
        scan = before
        damages, _ = scan.slice(connection, _SLICE_ROWS, _SLICE_BYTES)
    return scan, damages


def _again(look: Callable[[], Iterable[Damage]]) -> Sequence[Damage]:
    """What is damaged; by a second look where there is a first damage."""
    if not next(iter(look()), None):
        return ()
    sleep(_AGAIN_SECONDS)
    return list(look())
