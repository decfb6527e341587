"""RocksDB's own log file: what is serious in it is said by the service."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
import structlog

from engine.store.rocks import RocksStore
from engine.store.store import Changes
from ops.serving.rocksdb_log import RocksdbLogs

WARNING = "2026/11/22-02:32:49.683840 140425044035264 [WARN] [db/error_handler.cc:393] Background IO error {}\n"
INFO = "2026/11/22-02:32:49.683841 140425044035264 [db/flush_job.cc:1] [data] [JOB 4] Flushing\n"


def test_a_damaged_block_that_a_compaction_meets_is_said(tmp_path: Path) -> None:
    """One flipped byte in a table: RocksDB counts it and says why in its LOG; the service says it, once."""
    store = RocksStore(tmp_path, ("data",))
    for number in range(2):
        changes = Changes()
        changes.of("data").update({b"%06d" % n: b"%d" % number * 100 for n in range(number, 5000, 2)})
        store.write(changes)
        store.flush_all()
    for table in tmp_path.glob("*.sst"):
        content = bytearray(table.read_bytes())
        if len(content) > 10_000:
            content[5000] ^= 0xFF
            table.write_bytes(content)
    logs = RocksdbLogs({3: tmp_path})
    with structlog.testing.capture_logs() as before:
        logs.look()
    store._families["data"].compact_range(None, None)
    with structlog.testing.capture_logs() as said:
        logs.look()
    with structlog.testing.capture_logs() as again:
        logs.close()
    counted = store.number_of("background-errors")
    with suppress(OSError):  # it says that a background job has failed
        store.close()
    assert counted > 0
    assert [] == before
    assert {3} == {line["partition"] for line in said}
    assert any("block checksum mismatch" in line["text"] for line in said)
    assert {"warning", "error"} >= {line["log_level"] for line in said}
    assert [] == again


@pytest.mark.parametrize("rolled", [False, True], ids=["the same file", "a new file"])
def test_each_line_is_said_once(tmp_path: Path, rolled: bool) -> None:
    """Also when RocksDB has begun a new file meanwhile, a line was half written, or the directory came late."""
    path, logs = tmp_path / "0" / "LOG", RocksdbLogs({0: tmp_path / "0"})
    with structlog.testing.capture_logs() as said:
        logs.look()
        path.parent.mkdir()
        path.write_text(INFO + WARNING.format(1) + WARNING.format(2)[:50])
        logs.look()
        with path.open("a") as file:
            file.write(WARNING.format(2)[50:])
        if rolled:
            path.rename(path.with_name("LOG.old"))
            path.write_text(INFO)
        logs.look()
        with path.open("a") as file:
            file.write(WARNING.format(3))
        logs.look()
        logs.close()
    assert [f"Background IO error {n}" for n in (1, 2, 3)] == [line["text"] for line in said]


def test_a_flood_is_cut(tmp_path: Path) -> None:
    """Ten lines of a round, and how many there are beside them."""
    (tmp_path / "LOG").write_text("".join(WARNING.format(n) for n in range(25)))
    with structlog.testing.capture_logs() as said:
        RocksdbLogs({0: tmp_path}).close()
    assert (11, True) == (len(said), said[-1]["text"].startswith("15 lines more"))
