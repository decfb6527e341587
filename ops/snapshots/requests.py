"""Asks a running service for a snapshot, by a file in its data directory.

    DATA/requests/PARTITION-TOKEN.asked    {"url": …}, written by who asks, removed by the service with the answer
    DATA/requests/PARTITION-TOKEN.done     what came of it, removed by who has asked

Whoever may write there may do anything to the state, so no password is needed; and it works without an HTTP server.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex
from time import sleep
from typing import Any, Final, NamedTuple

from ops.snapshots.errors import SnapshotStoreError
from ops.state.opening.directories import partition_path

_DIRECTORY: Final = "requests"
_ASKED: Final = ".asked"
_DONE: Final = ".done"
_LOCK: Final = "LOCK"  # of RocksDB
_AGAIN_SECONDS: Final = 0.1
_NAME: Final = re.compile(rf"([0-9]+)-[0-9a-f]+{re.escape(_ASKED)}")


class Request(NamedTuple):
    """A request that somebody has made: for a snapshot of a partition, into the store at `url`."""

    partition: int
    url: str
    path: Path


def ask(data: Path, partition: int, url: str) -> dict[str, Any] | None:
    """Ask the service that has a partition open for a snapshot, and wait for it.

    Returns:
        What came of it; None: no service has the partition open any more.

    Raises:
        SnapshotStoreError: the service could not take it; the message says why.
        OSError: nothing can be written there.
    """
    directory = data / _DIRECTORY
    directory.mkdir(mode=0o700, exist_ok=True)
    asked = directory / f"{partition}-{token_hex(8)}{_ASKED}"
    done = asked.with_suffix(_DONE)
    _write(asked, {"url": url})
    try:
        while not done.exists():
            if not is_in_use(partition_path(data, partition)) and not done.exists():
                return None
            sleep(_AGAIN_SECONDS)
        answer: dict[str, Any] = json.loads(done.read_text())
    finally:
        asked.unlink(missing_ok=True)
        done.unlink(missing_ok=True)
    if "error" in answer:
        raise SnapshotStoreError(answer["error"])
    return answer


def requests(data: Path) -> Iterator[Request]:
    """The requests that are not answered yet. One that cannot be read is removed."""
    for path in sorted((data / _DIRECTORY).glob(f"*{_ASKED}")):
        match = _NAME.fullmatch(path.name)
        try:
            url = json.loads(path.read_text())["url"]
        except FileNotFoundError:  # who has asked has given up
            continue
        except (ValueError, TypeError, KeyError):
            url = None
        if match is None or not isinstance(url, str):
            path.unlink(missing_ok=True)
        else:
            yield Request(int(match[1]), url, path)


def answer(request: Request, facts: dict[str, Any]) -> None:
    """Tell who has asked what came of it: facts, or `error`."""
    if request.path.exists():
        _write(request.path.with_suffix(_DONE), facts)
        request.path.unlink(missing_ok=True)


def is_in_use(path: Path) -> bool:
    """Whether another process has the database in a directory open."""
    try:
        lock = os.open(path / _LOCK, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _write(path: Path, facts: dict[str, Any]) -> None:
    """Write a file, all at once."""
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(facts))
    unfinished.rename(path)
