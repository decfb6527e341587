"""Marks the directory that a replay or conversion writes, so that the next one begins anew after a kill.

The mark is the file BUILDING in it, locked as long as that runs, and gone when all of it is there.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import structlog

from ops.config import ConfigError
from ops.state.clocks.guard import KEPT_FILE
from ops.state.opening.directories import BUILDING, partition_path, state_directories

_LOCK: Final = "LOCK"  # of RocksDB, in each directory of a partition

logger = structlog.get_logger(__name__)


def clear_unfinished(to: Path) -> None:
    """Remove what a replay or conversion has left that was killed; where there was none, nothing happens.

    Raises:
        ConfigError: it still runs, or another process uses what it has written.
    """
    mark = to / BUILDING
    if not mark.is_file():
        return
    with mark.open("rb") as file:
        _lock(file.fileno(), to)
        directories = [partition_path(to, partition) for partition in state_directories(to)]
        for directory in directories:
            _refuse_used(directory)
        logger.warning(
            "begun_anew", directory=str(to), hint="an earlier replay or conversion was broken off in the middle"
        )
        for directory in directories:
            shutil.rmtree(directory)
        (to / KEPT_FILE).unlink(missing_ok=True)  # of a verb that was tried on it
        mark.unlink()


@contextmanager
def marked(to: Path) -> Iterator[None]:
    """Within the block `to`, which is there and empty, is marked. After an error it stays marked.

    Raises:
        ConfigError: another replay or conversion was quicker.
    """
    mark = to / BUILDING
    with mark.open("wb") as file:
        _lock(file.fileno(), to)
        yield
        mark.unlink()


def _lock(descriptor: int, to: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ConfigError(f"another replay or conversion writes {to}: let it end, or name another directory") from None


def _refuse_used(directory: Path) -> None:
    """Refuse a state that another process has open. This one has it not: else its own lock would go."""
    try:
        lock = os.open(directory / _LOCK, os.O_RDWR)
    except FileNotFoundError:
        return
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ConfigError(f"{directory} is in use: end what runs on it, or name another directory") from None
    finally:
        os.close(lock)
