"""A replay or conversion that is killed while it ends leaves no state yet, or the whole one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import rocksdict as rd  # noqa: TID251 - the handle that the store hands out

from engine.proof.digest import Digest
from engine.store.rocks import RocksStore
from engine.store.store import SHARED_CFS
from tests.ops.verbs import run, succeed, write_lines

EVENTS = [
    {"cmd": "SET", "args": ["s", "1", "EX", "1000"]},
    {"cmd": "HSET", "args": ["h", "f", "1"]},
    {"cmd": "ZADD", "args": ["z", "1", "m"]},
    {"cmd": "DEL", "args": ["h"]},
    {"cmd": "INCR", "args": ["n"], "id": "once"},
]
EMPTY = f"{Digest()}  0 keys\npartition 0: next offset 0, clock 0 ms\n"
"""What `digest` prints before the mark of an unfinished replay is on disk: nothing was applied either."""


@pytest.mark.parametrize("verb", ["replay", "convert"])
def test_a_crash_between_two_flushes_leaves_no_half_state(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever column families are on disk when the verb dies, its directory is refused, or is empty, or is whole.

    Without a write-ahead log a crash leaves what was flushed. So each directory is copied as it is after each flush.
    As long as the mark of the directory is there, all of it is refused.
    """
    data, again = tmp_path / "data", tmp_path / "again"
    succeed("produce", write_lines(tmp_path / "events", EVENTS), "--data", data)
    if verb == "convert":
        succeed("replay", "--data", data, "--to", tmp_path / "built")
        (tmp_path / "built" / "0").rename(data / "0")
    own_family = RocksStore._own_family
    crashes: list[Path] = []

    @contextmanager
    def crashing(self: RocksStore, name: str) -> Iterator[rd.Rdict | None]:
        with own_family(self, name) as family:
            yield family
        crashes.append(tmp_path / f"crash{len(crashes)}")
        shutil.copytree(again, crashes[-1])

    monkeypatch.setattr(RocksStore, "_own_family", crashing)
    succeed(verb, "--data", data, "--to", again, "--layout", "neokv")
    monkeypatch.undo()
    whole = succeed("digest", "--data", again)
    assert {True} == {"replay" in run("digest", "--data", crash).stderr for crash in crashes}
    for crash in crashes:  # what follows is about the mark in each state
        (crash / "BUILDING").unlink()
    said = {crash: run("digest", "--data", crash) for crash in crashes}
    refused = [crash for crash in crashes if said[crash].exit_code]

    assert len(crashes) > 2 * len(SHARED_CFS)
    assert {True} == {"replay" in said[crash].stderr for crash in refused}
    assert {EMPTY, whole} == {said[crash].stdout for crash in crashes if crash not in refused}
    assert crashes[-1] not in refused
