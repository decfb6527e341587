"""Tests of the keys in a state of the neokv layout, and of bytes that are no metadata of it."""

from __future__ import annotations

import pytest

from engine.errors import CorruptionError
from engine.layouts.neokv import NeoKV
from engine.proof.walk import live_keys
from engine.store.store import Changes
from tests.engine.harness import NOW_MS, new_store, open_machine, records_of, send
from tests.layouts import home_of


def test_the_partition_is_in_every_key() -> None:
    """`region_id` is the partition's number."""
    store = new_store()
    send(open_machine(store, home_of("topic", 1, 4)), "HSET bar f v")

    assert {1} == {
        int.from_bytes(key[:8], "big") for name, key, _ in records_of(store, 1) if name in {"metadata", "data"}
    }


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (NeoKV(0).metadata_key(0, 1, b"a"), b""),
        (NeoKV(0).metadata_key(0, 1, b"a"), b"\x86" + bytes(24)),
        (NeoKV(0).metadata_key(0, 1, b"a"), b"\x02" + bytes(24)),
        (NeoKV(0).metadata_key(0, 1, b"a"), b"\x82" + bytes(23)),
        (NeoKV(0).metadata_key(0, 1, b"a"), b"\x83" + bytes(39)),
        (NeoKV(0).metadata_key(0, 1, b"a")[:-2], b"\x81" + bytes(8)),
        (NeoKV(0).metadata_key(0, 1, b"a") + b"x", b"\x81" + bytes(8)),
        (NeoKV(1).metadata_key(0, 1, b"a"), b"\x81" + bytes(8)),
    ],
    ids=["empty", "reserved type", "narrow", "cut", "cut list", "cut key", "long key", "other partition"],
)
def test_damaged_metadata_is_corrupt(key: bytes, value: bytes) -> None:
    """A metadata record that the layout did not write is named, never guessed at."""
    store = new_store()
    changes = Changes()
    changes.of("metadata")[key] = value
    store.write(changes)

    with pytest.raises(CorruptionError, match=r"metadata (key|value)"):
        list(live_keys(store, NeoKV(0), NOW_MS))
