"""The states of workers after all other tests of this folder: those of a replay. This name is the last."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.rig import Rig


@pytest.mark.timeout(600)
def test_copies_are_those_of_a_replay(rig: Rig, tmp_path: Path) -> None:
    """The copies of a partition have one digest at one position, which is that of a replay of its whole log."""
    found, replayed = rig.end_and_replay(tmp_path)
    assert replayed == found
