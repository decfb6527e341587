"""Puts a rebuilt state in the place of the live one, so that a kill loses neither.

The steps are renames behind a mark:

    DATA/rebuilt/PARTITION    what a replay builds
    DATA/replaced/PARTITION   what was in its place
    DATA/SWAPPING             the mark: {"partitions": [PARTITION, ...], "keep": BOOL}

The mark is written when all of it is built and on disk, and goes when each partition is in its place. Nothing opens a
state of that directory as long as it is there. The next start of a service does the rest, and so does the next replay
that swaps. The mark is locked by who does it.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

import structlog

from ops.config import ConfigError
from ops.state.opening.directories import SWAPPING, partition_path
from slotlog.disk import sync

_LOCK: Final = "LOCK"  # of RocksDB, in each directory of a partition

logger = structlog.get_logger(__name__)


def rebuilt_in(data: Path) -> Path:
    """Where the state is built that is to be put in place."""
    return data / "rebuilt"


def replaced_in(data: Path) -> Path:
    """Where the state is kept that was in place."""
    return data / "replaced"


@contextmanager
def out_of_use(data: Path, partitions: Sequence[int]) -> Iterator[None]:
    """Within the block no service can open these partitions, and none has them open.

    Raises:
        ConfigError: one is open in another process or a file, or an earlier swap has left what was replaced.
    """
    if replaced_in(data).exists():
        raise ConfigError(f"{replaced_in(data)} has what an earlier --swap has replaced: move it away, or remove it")
    with ExitStack() as held:
        for partition in partitions:
            path = partition_path(data, partition)
            if path.exists() and not path.is_dir():
                raise ConfigError(
                    f"{path} is a file, not the directory of a partition: move it away, and run this again"
                )
            with suppress(FileNotFoundError):  # there is no state; one that was restored and never opened has no lock
                lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                held.callback(os.close, lock)
                try:
                    fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except (BlockingIOError, PermissionError):
                    raise ConfigError(f"{path} is open in another process: stop the service first") from None
        yield


def swap(data: Path, partitions: Sequence[int], *, keep: bool) -> None:
    """Put what was built of these partitions in its place.

    Args:
        data: the directory of the state, which is out of use.
        partitions: of which each is built, and on disk.
        keep: keep what was replaced, in `replaced_in`.

    Raises:
        OSError: it cannot be renamed; `finish_swap` goes on from there.
    """
    mark = data / SWAPPING
    new = mark.with_suffix(".new")
    with new.open("w") as file:
        json.dump({"partitions": list(partitions), "keep": keep}, file)
        file.flush()
        os.fsync(file.fileno())
    sync(rebuilt_in(data))
    new.rename(mark)
    sync(data)
    finish_swap(data)


def finish_swap(data: Path) -> None:
    """Do what is left of a swap that was broken off; nothing where there was none.

    Raises:
        ConfigError: another process does it.
        OSError: it cannot be renamed.
    """
    mark = data / SWAPPING
    try:
        file = mark.open("rb")
    except FileNotFoundError:
        return
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(f"another process puts a rebuilt state in place in {data}: let it end") from None
        said = json.load(file)
        for partition in said["partitions"]:
            _exchange(data, partition)
        if not said["keep"]:
            shutil.rmtree(replaced_in(data), ignore_errors=True)
        with suppress(OSError):  # somebody else has put something there
            rebuilt_in(data).rmdir()
        mark.unlink(missing_ok=True)
        sync(data)
    logger.warning("state_swapped", directory=str(data), partitions=said["partitions"])


def _exchange(data: Path, partition: int) -> None:
    """Put one partition in its place, unless it is there already."""
    built, live = partition_path(rebuilt_in(data), partition), partition_path(data, partition)
    if not built.exists():
        return
    if live.exists():
        replaced_in(data).mkdir(mode=0o700, exist_ok=True)
        live.rename(partition_path(replaced_in(data), partition))
        sync(replaced_in(data))
        sync(data)
    built.rename(live)
    sync(data)
    sync(rebuilt_in(data))
