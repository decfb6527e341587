"""Slots, scores and versions against checked examples (tests/vectors/encodings.json, which says them as hex)."""

from __future__ import annotations

import json
from binascii import crc_hqx
from pathlib import Path
from typing import Any

import pytest

from engine.values.encoding import pack_score, parse_score
from slotlog.shared.slots import slot
from tests.engine.harness import event, new_store, open_machine

VECTORS: dict[str, Any] = json.loads((Path(__file__).parents[1] / "vectors" / "encodings.json").read_text())


def test_crc16_check_value() -> None:
    """The standard library's CRC-16 is Redis' one: its check value is 0x31C3."""
    assert 0x31C3 == VECTORS["crc16_123456789"] == crc_hqx(b"123456789", 0)


@pytest.mark.parametrize("vector", VECTORS["slots"], ids=lambda vector: vector["key"][:40] or "empty")
def test_slots(vector: dict[str, Any]) -> None:
    """A key's slot is the checked one, hash tags and binary keys included."""
    assert vector["slot"] == slot(bytes.fromhex(vector["key"]))


@pytest.mark.parametrize("vector", VECTORS["scores"], ids=lambda vector: vector["score"])
def test_scores(vector: dict[str, Any]) -> None:
    """A score packs to the checked bytes and parses back; -0.0 comes back as 0.0, which is equal to it."""
    packed = bytes.fromhex(vector["bytes"])

    assert packed == pack_score(float(vector["score"]))
    assert float(vector["score"]) == parse_score(packed)


def test_scores_sort_as_their_bytes() -> None:
    """The order of the packed scores is the order of the numbers."""
    scores = [float(vector["score"]) for vector in VECTORS["scores"]]

    assert sorted(scores) == [parse_score(packed) for packed in sorted(map(pack_score, scores))]


@pytest.mark.parametrize("vector", VECTORS["versions"], ids=lambda vector: str(vector["version"]))
def test_versions(vector: dict[str, int]) -> None:
    """A new collection takes the checked version for the partition's clock and the last version."""
    machine = open_machine(new_store())
    machine._tx.last_version = vector["last_version"]
    machine.apply([event(0, "HSET h f v", at_ms=vector["clock_ms"])], 0)

    assert vector["version"] == machine._tx.last_version
