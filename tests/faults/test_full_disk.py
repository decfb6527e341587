"""A disk that is full: writes are refused, and say why; nothing is lost, and room is all it needs."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.faults.filled import DISKS, FilledDisk
from tests.faults.test_failing_disk import EXPECTED, Service, check_whole

_TIMES: Final = int(os.environ.get("DISK_FILLS", "1"))
"""So often a disk is filled and gets room again; the variable asks for more of that for a night, on every kind."""

_WRITES: Final = 100  # so many that the embedded log makes room
_ROOM_BYTES: Final = 32 << 20
_ROOM_SECONDS: Final = 60
_VALUE_BYTES: Final = 4000
_RESERVE_BYTES: Final = 128 << 20  # half of it is more than a service writes in a second
_EXPECTED: Final = (*EXPECTED, b"ERR partition 0 is waiting: ")


@pytest.fixture(params=DISKS if _TIMES > 1 else [[*DISKS][-1]])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FilledDisk]:
    """One with room so far."""
    with DISKS[request.param](tmp_path) as made:
        yield made


def _until_room(log_url: str) -> None:
    """Wait until the log has made room for its commits."""
    wal, until = Path(log_url.removeprefix("sqlite:///") + "-wal"), time.monotonic() + _ROOM_SECONDS
    while wal.stat().st_size < _ROOM_BYTES:
        assert time.monotonic() < until
        time.sleep(0.05)


def _errors(service: Service, value_bytes: int) -> list[bytes]:
    """Write until something else than OK is answered: files have room of their own that is not used yet."""
    while not (errors := service.write(20, value_bytes)):
        pass
    return errors


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("what", "reserve_bytes"),
    [("both", _RESERVE_BYTES), ("state", _RESERVE_BYTES), ("both", 0), ("state", 0), ("log", 0)],
)
def test_a_disk_is_full_for_a_while(disk: FilledDisk, tmp_path: Path, what: str, reserve_bytes: int) -> None:
    """With a reserve, or to the last byte: `/readyz` is 503 until there is room, and then all goes on.

    All that was acknowledged is read all the while, also from a state that has met the last byte.
    """
    log_url = f"sqlite:///{(tmp_path if what == 'state' else disk.directory) / 'log.sqlite3'}"
    variables = {"SLOTLOG_FREE_BYTES_MIN": str(reserve_bytes), "SLOTLOG_LOG": log_url}
    service = Service((tmp_path if what == "log" else disk.directory) / "data", {**disk.environment, **variables})
    errors, unread = list[bytes](), list[object]()
    with service.started() as process:
        for _ in range(_TIMES):
            service.until(200)
            service.write(_WRITES)
            if what != "state":  # another disk may be too slow for it
                _until_room(log_url)
            disk.fill(reserve_bytes // 2)
            errors += _errors(service, 1 if reserve_bytes else _VALUE_BYTES)  # the reserve is looked at once a second
            service.until(503)
            unread += [reply for key, reply in service.read().items() if reply != service.acknowledged[key]]
            disk.make_room()
        service.until(200)
        service.write(20)
        lost = service.lost()
        service.end(process)

    assert [] == [text for text in errors if not text.startswith(_EXPECTED)]
    assert ([], [], []) == (unread, lost, service.said_wrongly())
    check_whole(service, log_url)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("what", "is_killed"), [("state", True), ("both", False)])
def test_a_service_that_starts_on_a_full_disk_waits_for_room(
    disk: FilledDisk, tmp_path: Path, what: str, is_killed: bool
) -> None:
    """It says what for, and goes on by itself: with a write-ahead log left behind, or with none of state and log."""
    log_url = f"sqlite:///{(tmp_path if what == 'state' else disk.directory) / 'log.sqlite3'}"
    environment = {**disk.environment, "SLOTLOG_FREE_BYTES_MIN": "0", "SLOTLOG_LOG": log_url}
    service = Service(disk.directory / "data", environment)
    with service.started() as process:
        service.until(200)
        service.write(20, _VALUE_BYTES)
        if is_killed:
            process.kill()
            service.keep(process)
        else:
            service.end(process)
    disk.fill(0)
    with service.started() as process:
        if what == "state":
            process.wait_for("started")
            (of_partition,) = service.until(503)["partitions"]
            refused = {reply.text.decode() for reply in service.read().values()}
            assert "waiting" == of_partition["condition"]
            assert f"{service.data / '0'} cannot be opened, as its disk is full: make room " in of_partition["reason"]
            assert {f"ERR partition 0 is waiting: {of_partition['reason']}"} == refused
        else:
            hint = process.wait_for("log_waits_for_room")["hint"]
            assert ("its disk is full: make room", False) == (hint, service.until(503)["disk"]["ready"])
        disk.make_room()
        service.until(200)
        service.write(20)
        lost = service.lost()
        service.end(process)

    assert ([], []) == (lost, service.said_wrongly())
    check_whole(service, log_url)
