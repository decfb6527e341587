"""Random flipped bits of a state are named, or change nothing that is read. None changes an answer in silence.

`make nightly` flips 600 of them, STATE_FLIPS any other number.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path
from typing import Final

import pytest

from tests.faults.service import ServiceProcess
from tests.ops.snapshots.stores import state_of
from tests.ops.verbs import run, succeed, wait_for_offset, write_lines

FLIPS: Final = int(os.environ.get("STATE_FLIPS", "4"))
SEED: Final = 18
KINDS: Final = ("*.sst", "MANIFEST-*", "CURRENT", "*.log")
"""The files of a state: tables, the list of those that count, which list counts, and what is in no table yet."""

FLUSHED: Final = 300
UNFLUSHED: Final = 60


def _events(first: int, count: int) -> list[dict[str, object]]:
    """Some of each type."""
    events: list[dict[str, object]] = []
    for number in range(first, first + count // 3):
        events += [
            {"cmd": "SET", "args": [f"string-{number % 50}", f"{number}" * 20]},
            {"cmd": "HSET", "args": [f"hash-{number % 9}", f"field-{number}", f"{number}"]},
            {"cmd": "ZADD", "args": ["zset", number, f"member-{number % 40}"]},
        ]
    return events


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A state of which most is in tables, and the rest in the write-ahead log, as a killed service leaves it."""
    data = state_of(tmp_path, _events(0, FLUSHED))
    succeed("produce", write_lines(tmp_path / "more", _events(FLUSHED, UNFLUSHED)), "--data", data)
    _go_on(data)
    return data


def _go_on(data: Path) -> None:
    """Let a service apply what there is, and kill it."""
    with ServiceProcess(["--data", str(data), "--http", "127.0.0.1:0"]) as service:
        service.wait_for("started")
        wait_for_offset(service, FLUSHED + UNFLUSHED)
        service.kill()


def _digest(data: Path) -> tuple[str, int]:
    """Of the state, and its position."""
    return _parsed(succeed("digest", "--data", data, "--json"))


def _parsed(said: str) -> tuple[str, int]:
    (partition,) = json.loads(said)["partitions"]
    return partition["digest"], partition["next_offset"]


def _written(state: Path, kind: str) -> list[Path]:
    return [path for path in sorted(state.glob(kind)) if path.stat().st_size]


def _flip(path: Path, choose: random.Random) -> str:
    """Change one bit; where."""
    content = bytearray(path.read_bytes())
    at, bit = choose.randrange(len(content)), choose.randrange(8)
    content[at] ^= 1 << bit
    path.write_bytes(content)
    return f"bit {bit} of byte {at} of {path.name}"


@pytest.mark.damaging
@pytest.mark.timeout(3600)
def test_flipped_bits_of_a_state(data: Path, tmp_path: Path) -> None:
    """A state that can be read has the right digest, if need be when a service has gone on; else its damage is named.

    A damaged state is rebuilt from the log by the command that the message names.
    """
    right = _digest(data)
    choose = random.Random(SEED)
    named = 0
    for number in range(FLIPS):
        copy, kind = tmp_path / f"flip-{number}", KINDS[number % len(KINDS)]
        shutil.copytree(data, copy)
        where = _flip(choose.choice(_written(copy / "0", kind)), choose)
        read = run("digest", "--data", copy, "--json")
        if read.exit_code == 0:
            found = _parsed(read.stdout)
            if found[1] < right[1]:
                _go_on(copy)
                found = _digest(copy)
            assert right == found, where
        else:
            named += 1
            checked = run("check", "--data", copy)
            assert "damaged" in read.output, where
            assert (1, True) == (checked.exit_code, "slotlog replay" in checked.output), (where, checked.output)
            succeed("replay", "--swap", "--data", copy)
            assert right == _digest(copy), where
        shutil.rmtree(copy)

    assert named > 0
