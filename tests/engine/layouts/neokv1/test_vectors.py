"""Strings of Phase 1 against checked examples (tests/vectors/encodings.json, which says them as hex)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.layouts.neokv import NeoKV
from engine.layouts.neokv.phase1 import Phase1
from engine.layouts.records import metadata_records
from engine.model import STRING, Metadata
from slotlog.shared.slots import slot
from tests.engine.harness import family, new_store, open_machine

VECTORS: list[dict[str, Any]] = json.loads((Path(__file__).parents[3] / "vectors" / "encodings.json").read_text())[
    "neokv1"
]
FORM = Phase1()
TAGS = {"string": "53", "hash": "48", "list": "4c", "set": "45", "zset": "5a"}
"""What stands behind the name, by type: S, H, L, E, Z."""

_each = pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["key"][:40] or "empty")


@_each
def test_keys_and_values(vector: dict[str, Any]) -> None:
    """Key and value of a string have the checked bytes, and parse back; a key with another tag is no string."""
    layout, name = NeoKV(vector["region_id"]), bytes.fromhex(vector["key"])
    key = layout.metadata_key(vector["index_id"], slot(name), name)
    keys = {type_name: bytes.fromhex(text) for type_name, text in vector["keys"].items()}
    metadata = Metadata(STRING, vector["expire_ms"], value=bytes.fromhex(vector["payload"]))

    assert vector["keys"] == {type_name: key.hex() + tag for type_name, tag in TAGS.items()}
    assert keys["string"] == FORM.key(key)
    assert {"string": key} == {each: owner for each in keys if (owner := FORM.owner(keys[each]))}
    assert {key} == {FORM.beside(record) for record in keys.values()}
    assert vector["value"] == FORM.pack(metadata).hex()
    assert metadata == FORM.parse(bytes.fromhex(vector["value"]))


@_each
def test_an_event_writes_these_bytes(vector: dict[str, Any]) -> None:
    """SET leaves the checked record and no other one, and `neokv` finds the same string in it."""
    name, payload, expire_ms = bytes.fromhex(vector["key"]), bytes.fromhex(vector["payload"]), vector["expire_ms"]
    store = new_store()
    machine = open_machine(store)
    options = [b"PXAT", b"%d" % expire_ms] if expire_ms else []
    machine.apply([(0, 0, b"SET", [name, payload, *options], vector["index_id"], None, None)], 0)
    machine.commit(None)
    ((record, value),) = family(store, "data").items()

    assert (vector["keys"]["string"][16:], vector["value"]) == (record.hex()[16:], value.hex())
    assert bytes(8) == record[:8]  # of partition 0, the one of a log that has databases
    assert {} == family(store, "metadata")
    ((key, stored),) = metadata_records(store, NeoKV(0).with_earlier())
    assert (record[:-1], payload) == (key, NeoKV.parse_metadata(stored).value)
