"""Imports from files and directories that are killed in the middle: the second run ends with all keys."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from engine.values.rdb.crc64 import crc64
from tests.ops.importing.contents import of_state, replayed
from tests.ops.importing.kvrocks.written import KvrocksWriter
from tests.ops.importing.phase1.written import record, write_directory
from tests.ops.verbs import succeed, wait_until

KEYS: Final = 12_000
NAMES: Final = [b"key:%05d" % number for number in range(KEYS)]


def rdb_file(path: Path) -> Path:
    """An RDB file with all keys."""
    keys = b"".join(b"\0\x09" + name + b"\x09" + name for name in NAMES)
    data = b"REDIS0011" + keys + b"\xff"
    path.write_bytes(data + crc64(data).to_bytes(8, "little"))
    return path


def kvrocks_directory(path: Path) -> Path:
    """The same of Kvrocks."""
    with KvrocksWriter(path) as writer:
        for name in NAMES:
            writer.string(name, name)
    return path


def phase1_directory(path: Path) -> Path:
    """The same of Phase 1."""
    return write_directory(path, {"data": dict(record(name, name) for name in NAMES)})


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (rdb_file, []),
        (kvrocks_directory, ["--layout", "kvrocks"]),
        (phase1_directory, ["--layout", "neokv1"]),
    ],
    ids=["rdb", "kvrocks", "neokv1"],
)
def test_second_run_after_a_kill_ends_with_all_keys(
    make: Callable[[Path], Path], options: list[str], tmp_path: Path
) -> None:
    """What was appended since progress was written comes twice, and nothing else; no key is lost."""
    data = tmp_path / "data"
    words = ["import", str(make(tmp_path / "source")), *options, "--data", str(data), "--json"]
    with subprocess.Popen([sys.executable, "-m", "ops.cli", *words], stdout=subprocess.DEVNULL) as process:
        wait_until(lambda: any((data / "imports").glob("*/progress.json")), "the first append")
        process.kill()
    first = replayed(tmp_path / "first", "--data", data)
    second = json.loads(succeed(*words))
    records = replayed(tmp_path / "state", "--data", data)

    assert -9 == process.returncode
    assert 0 < second["earlier_keys"] < KEYS
    assert second["earlier_keys"] <= first
    assert first + KEYS - second["earlier_keys"] == records
    assert {(0, name): ("string", name, None) for name in NAMES} == of_state(tmp_path / "state")
