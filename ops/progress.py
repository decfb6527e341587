"""Shows the progress of a long job on stderr: a bar on a terminal, else log lines."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Final

import structlog

_LINE_SECONDS: Final = 5.0

logger = structlog.get_logger(__name__)

Advance = Callable[[int], None]
"""Called with how much is done in all."""

_shown = True


def show_nothing() -> None:
    """Show no progress in this process from now on: another one shows it."""
    global _shown  # noqa: PLW0603 - stderr is one for the whole process
    _shown = False


@contextmanager
def progress(job: str, total: int | None, unit: str) -> Iterator[Advance]:
    """Show how far `job` is while the block runs; `total` (None: nobody knows) is in `unit`, such as events."""
    if not _shown:
        yield _nowhere
        return
    if sys.stderr.isatty():
        with _bar(job, total, unit) as advance:
            yield advance
        return
    began = shown = monotonic()

    def line(done: int) -> None:
        nonlocal shown
        if monotonic() - shown >= _LINE_SECONDS:
            shown = monotonic()
            logger.info(job, done=done, total=total, unit=unit, per_second=round(done / (shown - began)))

    yield line


def _nowhere(_done: int) -> None:
    """Nothing is shown."""


@contextmanager
def _bar(job: str, total: int | None, unit: str) -> Iterator[Advance]:
    # Here, because a process without a terminal, as every service is, would only take longer to start.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    counts: tuple[ProgressColumn, ...] = (
        (DownloadColumn(binary_units=True), TransferSpeedColumn())
        if unit == "bytes"
        else (MofNCompleteColumn(), TextColumn(unit), TextColumn("{task.fields[rate]}"))
    )
    columns = (TextColumn("{task.description}"), BarColumn(), *counts, TimeRemainingColumn())
    began = monotonic()
    # What a verb prints meanwhile stands above the bar, but not when it goes to a file.
    with Progress(*columns, console=Console(stderr=True), redirect_stdout=sys.stdout.isatty()) as bar:
        task = bar.add_task(job, total=total, rate="")

        def advance(done: int) -> None:
            bar.update(task, completed=done, rate=f"{done / max(monotonic() - began, 0.001):,.0f}/s")

        yield advance
