"""Damage that a read finds stops its partition for good, and nothing else; the client gets an error."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.batch.cursors import DIGEST_BITS
from engine.store.rocks import RocksStore
from engine.store.store import EXPIRY_CF
from ops.state.opening.directories import partition_path
from slotlog.shared.slots import partition_of, slot
from tests.layouts import column_families
from tests.ops.metrics.test_sources import scraped
from tests.ops.serving.test_health import Served, served
from tests.ops.state.opening.test_set_aside import asked
from tests.real.oracle import ErrorReply, SimpleString

KEYS = 800
TOLD = "the state is damaged ("
CAUSE = "Corruption: block checksum mismatch"

pytestmark = pytest.mark.damaging


def tag_of(partition: int, partitions: int) -> bytes:
    """A hash tag whose keys are in that partition."""
    return next(b"{%d}" % n for n in range(99) if partition_of(slot(b"%d" % n), partitions) == partition)


async def filled(tmp_path: Path, partitions: int) -> list[bytes]:
    """A state on disk of whose last partition the middle of each table is damaged; the keys in it."""
    keys = [tag_of(partitions - 1, partitions) + b"%04d" % n for n in range(KEYS)]
    async with served(tmp_path, partitions=partitions) as it:
        await it.until("/readyz", 200)
        await asked(it, *((b"SET", key, key * 4, b"PX", b"86400000") for key in keys))
        await asked(it, (b"SET", tag_of(0, partitions), b"well"))
    path = partition_path(tmp_path / "data", partitions - 1)
    store = RocksStore(path, column_families())
    for name in ("metadata", EXPIRY_CF):
        assert any(store.scan(name, b"", None))
    store.flush_all()
    store.close()
    for table in path.glob("*.sst"):
        content = bytearray(table.read_bytes())
        if len(content) > 4096:
            content[len(content) // 3] ^= 0x55
            table.write_bytes(content)
    return keys


async def stopped(it: Served, partition: int) -> dict[str, Any]:
    """How that partition is, once it is stopped."""
    while (found := (await it.get("/readyz"))[1]["partitions"][partition])["condition"] != "stopped":  # noqa: ASYNC110 - as a probe
        await asyncio.sleep(0.01)
    return dict(found)


Ask = Callable[[Served, list[bytes]], Any]

READS: dict[str, Ask] = {
    "GET": lambda it, keys: asked(it, *((b"GET", key) for key in keys)),
    "KEYS": lambda it, _: asked(it, (b"KEYS", b"*")),
    "SCAN": lambda it, keys: asked(it, (b"SCAN", b"%d" % (slot(keys[0]) << DIGEST_BITS), b"COUNT", b"100000")),
    "EXEC": lambda it, keys: asked(it, (b"MULTI",), *((b"GET", key) for key in keys), (b"EXEC",)),
    "behind a write": lambda it, keys: asked(it, *((b"SET", keys[0][:-4], b"x"), *((b"GET", key) for key in keys))),
    "GETKEYSINSLOT": lambda it, keys: asked(it, (b"CLUSTER", b"GETKEYSINSLOT", b"%d" % slot(keys[0]), b"9999")),
    "INFO": lambda it, _: asked(it, (b"INFO", b"keyspace")),
}


def errors_in(replies: Any) -> list[bytes]:
    """The texts of all errors, those inside of arrays too."""
    if isinstance(replies, ErrorReply):
        return [replies.text]
    return [text for reply in replies for text in errors_in(reply)] if isinstance(replies, list) else []


@pytest.mark.parametrize("ask", READS.values(), ids=READS)
async def test_a_client_that_meets_it(ask: Ask, tmp_path: Path) -> None:
    """The partition is stopped, the client hears why, metrics and `/readyz` say it; the other partition goes on."""
    keys = await filled(tmp_path, 2)
    async with served(tmp_path, partitions=2) as it:
        await it.until("/readyz", 200)
        errors = errors_in(await ask(it, keys))
        found = await stopped(it, 1)
        metrics = await scraped(it.service.metrics)
        others = await asked(it, (b"GET", tag_of(0, 2)), (b"SET", tag_of(0, 2), b"x"), (b"GET", keys[0]))

    assert errors
    assert [True] * len(errors) == [text.startswith(b"ERR partition 1 is stopped: " + TOLD.encode()) for text in errors]
    assert found["reason"].startswith(TOLD)
    assert CAUSE in found["reason"]
    assert found["reason"].endswith("; rebuild it with `slotlog replay --swap`")
    assert [1, 0] == [metrics[f'slotlog_partition_running{{partition="{partition}"}}'] for partition in (0, 1)]
    assert metrics['slotlog_partition_condition{partition="1",condition="stopped"}'] == 1
    assert [b"well", SimpleString(b"OK")] == others[:2]
    assert others[2].text.startswith(b"ERR partition 1 is stopped: ")


async def test_a_client_of_one_partition(tmp_path: Path) -> None:
    """The short way of a standalone server's reads tells it as well."""
    keys = await filled(tmp_path, 1)
    async with served(tmp_path) as it:
        await it.until("/readyz", 200)
        errors = errors_in(await asked(it, *((b"GET", key) for key in keys)))
        found = await stopped(it, 0)

    assert found["reason"].startswith(TOLD)
    assert errors[0].startswith(b"ERR partition 0 is stopped: " + TOLD.encode())


async def test_a_scrape_that_meets_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Damage in what a metric reads stops the partition, and is no failure of the scrape."""
    await filled(tmp_path, 2)
    monkeypatch.setattr("ops.metrics.sources.due_entries", lambda store, _: store.scan(EXPIRY_CF, b"", None))
    monkeypatch.setattr("ops.metrics.sources.DUE_KEYS_MAX", KEYS)
    async with served(tmp_path, partitions=2) as it:
        await it.until("/readyz", 200)
        first = await scraped(it.service.metrics)
        found = await stopped(it, 1)

    assert found["reason"].startswith(f"{TOLD}a scan ended at damaged data: {CAUSE}")
    assert first['slotlog_partition_running{partition="0"}'] == 1


async def test_it_stays_stopped_until_another_store_is_there(tmp_path: Path) -> None:
    """A damaged store would open well: it is not opened again, and another one in its place is."""
    keys = await filled(tmp_path, 2)
    path = partition_path(tmp_path / "data", 1)
    async with served(tmp_path, partitions=2) as it:
        await it.until("/readyz", 200)
        await asked(it, *((b"GET", key) for key in keys))
        await stopped(it, 1)
        owned = it.service.consumer.partitions[1]
        for _ in range(3):
            owned.retry_at = 0.0
            while not owned.retry_at:  # noqa: ASYNC110 - the loop's next turn has no event
                await asyncio.sleep(0.01)
            assert not owned.worker.is_open
        path.rename(tmp_path / "away")
        owned.retry_at = 0.0
        await it.until("/readyz", 200)
        replies = await asked(it, *((b"GET", key) for key in keys))

    assert [key * 4 for key in keys] == replies


async def test_a_disk_that_cannot_be_read_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An I/O error of a read stops the partition for that reason; it is opened again by itself."""
    async with served(tmp_path) as it:
        await it.until("/readyz", 200)
        await asked(it, (b"SET", b"k", b"v"))
        machine = it.service.consumer.partitions[0].worker.machine

        def fail(*_: object, **__: object) -> None:
            raise Exception("IO error: While pread offset 0 len 53: 000009.sst: Input/output error")  # noqa: TRY002 - as rocksdict

        monkeypatch.setattr(machine, "evaluate", fail)
        it.service.resp.refresh()  # type: ignore[union-attr]
        failed = await asked(it, (b"GET", b"other"))  # a key that is not in memory
        found = await stopped(it, 0)
        await it.until("/readyz", 200)
        replies = await asked(it, (b"GET", b"k"))

    assert [b"ERR partition 0 is stopped: " + found["reason"].encode()] == errors_in(failed)
    assert found["reason"].startswith("the state cannot be read: IO error")
    assert [b"v"] == replies
