"""A service sets an unusable partition aside with its reason, and its other partition goes on."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ops.config import load_settings
from ops.serving.service import Service
from ops.state.opening.directories import partition_path
from slotlog.shared.slots import partition_of, slot
from tests.ops.serving.test_health import Served, served
from tests.ops.verbs import run
from tests.real.oracle import Connection, ErrorReply

PARTITIONS = 2
KEYS = [next(b"%d" % n for n in range(99) if partition_of(slot(b"%d" % n), PARTITIONS) == p) for p in range(PARTITIONS)]

pytestmark = pytest.mark.damaging


async def asked(it: Served, *commands: tuple[bytes, ...]) -> list[Any]:
    """The replies to a Redis client's commands."""
    assert it.service.resp is not None

    def ask(port: int) -> list[Any]:
        client = Connection(("127.0.0.1", port))
        try:
            return client.pipeline(commands)
        finally:
            client.close()

    return await asyncio.to_thread(ask, it.service.resp.port)


@pytest.fixture
async def data(tmp_path: Path) -> Path:
    """The data of a service that has ended, with a key in each of its two partitions."""
    async with served(tmp_path, partitions=PARTITIONS) as it:
        await it.until("/readyz", 200)
        await asked(it, *((b"SET", key, b"value") for key in KEYS))
    return tmp_path / "data"


def no_manifest(path: Path) -> None:
    """Remove RocksDB's manifest."""
    for manifest in path.glob("MANIFEST-*"):
        manifest.unlink()


def no_current(path: Path) -> None:
    """Remove the file that names the manifest."""
    (path / "CURRENT").unlink()


def no_directory(path: Path) -> None:
    """Put a file in the place of the directory."""
    shutil.rmtree(path)
    path.touch()


def no_lock(path: Path) -> None:
    """Put a directory in the place of RocksDB's lock."""
    (path / "LOCK").unlink()
    (path / "LOCK").mkdir()


BROKEN = {
    "no manifest": (no_manifest, "/1 is damaged ("),
    "no CURRENT": (no_current, "/1 is damaged ("),
    "a file in its place": (no_directory, "/1 cannot be opened: it is a file"),
    "a lock that cannot be opened": (no_lock, "/1 cannot be opened: IO error: while open a file for lock"),
}


@pytest.mark.parametrize(("spoil", "said"), BROKEN.values(), ids=BROKEN)
async def test_one_that_cannot_be_opened_is_set_aside(spoil: Callable[[Path], None], said: str, data: Path) -> None:
    """At the start it is stopped for a reason that `/readyz` and its clients hear; the other one is served."""
    spoil(partition_path(data, 1))
    async with served(data.parent, partitions=PARTITIONS) as it:
        while not (partitions := (await it.get("/readyz"))[1]["partitions"])[0]["ready"]:  # noqa: ASYNC110 - as a probe
            await asyncio.sleep(0.02)
        found, refused = await asked(it, *((b"GET", key) for key in KEYS))

    assert ["running", "stopped"] == [each["condition"] for each in partitions]
    assert (b"value", True) == (found, said in partitions[1]["reason"])
    assert isinstance(refused, ErrorReply)
    assert refused.text.startswith(b"ERR partition 1 is stopped: ")
    assert said.encode() in refused.text


async def test_one_that_is_mended_meanwhile_goes_on(data: Path) -> None:
    """A partition that was set aside is tried again by itself: what was wrong with its directory need not stay so."""
    partition_path(data, 1).rename(data / "away")
    partition_path(data, 1).touch()
    async with served(data.parent, partitions=PARTITIONS) as it:
        await it.until("/readyz", 503)
        partition_path(data, 1).unlink()
        (data / "away").rename(partition_path(data, 1))
        await it.until("/readyz", 200)
        replies = await asked(it, (b"GET", KEYS[1]))

    assert [b"value"] == replies


async def test_none_that_can_be_opened_refuses_the_start(data: Path) -> None:
    """Where no partition's directory can be used, that is the fault of the settings or of the rights: nothing runs."""
    for partition in range(PARTITIONS):
        no_directory(partition_path(data, partition))

    with pytest.raises(OSError, match=r"/0 cannot be opened: it is a file, not the directory of a partition$"):
        await Service(load_settings(data=data, partitions=PARTITIONS, http="", resp="")).run()


@pytest.mark.parametrize(("spoil", "said"), list(BROKEN.values())[:3], ids=list(BROKEN)[:3])
def test_verbs_name_it_and_read_the_other(spoil: Callable[[Path], None], said: str, data: Path) -> None:
    """`digest` and `check` read what can be read, name what cannot, and end with exit code 1."""
    spoil(partition_path(data, 1))
    digest, check = (run(verb, "--data", data, "--json") for verb in ("digest", "check"))
    facts = [json.loads(result.stdout.splitlines()[-1]) for result in (digest, check)]

    assert [1, 1] == [result.exit_code for result in (digest, check)]
    assert [[0], [0]] == [[each["partition"] for each in fact["partitions"]] for fact in facts]
    assert [[1], [1]] == [[each["partition"] for each in fact["damaged"]] for fact in facts]
    assert [True, True] == [said in fact["damaged"][0]["error"] for fact in facts]


def test_an_empty_directory_is_no_state(data: Path) -> None:
    """A partition whose directory is empty is one that is not there."""
    shutil.rmtree(partition_path(data, 1))
    partition_path(data, 1).mkdir()
    facts = json.loads(run("digest", "--data", data, "--json").stdout)

    assert ([1], [0]) == (facts["missing"], [each["partition"] for each in facts["partitions"]])
