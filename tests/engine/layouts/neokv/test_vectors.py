"""Keys and metadata against checked examples (tests/vectors/encodings.json, which says them as hex)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.layouts.layout import Kind
from engine.layouts.neokv import NeoKV
from engine.model import HASH, LIST, SET, STRING, ZSET, Metadata
from engine.values.encoding import pack_score, pack_u64
from slotlog.shared.slots import slot

VECTORS: dict[str, Any] = json.loads((Path(__file__).parents[3] / "vectors" / "encodings.json").read_text())
TYPES = {"string": STRING, "hash": HASH, "list": LIST, "set": SET, "zset": ZSET}


def _metadata(vector: dict[str, Any], type_code: int) -> Metadata:
    """What the metadata value of a vector says, for the type that it is written as."""
    if type_code == STRING:
        return Metadata(STRING, vector["expire_ms"], value=bytes.fromhex(vector["member"]))
    collection = Metadata(type_code, vector["expire_ms"], vector["version"], vector["size"])
    return collection._replace(head=vector["head"], tail=vector["tail"]) if type_code == LIST else collection


@pytest.mark.parametrize("vector", VECTORS["neokv"], ids=lambda vector: vector["key"][:40] or "empty")
def test_neokv_keys(vector: dict[str, Any]) -> None:
    """Metadata keys, subkeys, list subkeys and score keys have the checked bytes, and a metadata key parses back."""
    layout = NeoKV(vector["region_id"])
    name, member = bytes.fromhex(vector["key"]), bytes.fromhex(vector["member"])
    key = layout.metadata_key(vector["index_id"], slot(name), name)
    prefix = layout.prefix(Kind.DATA, key, vector["version"])
    score = pack_score(float(vector["score"]))

    assert vector["metadata_key"] == key.hex()
    assert vector["subkey"] == (prefix + member).hex()
    assert vector["list_subkey"] == (prefix + pack_u64(vector["head"])).hex()
    assert vector["score_key"] == (layout.prefix(Kind.SCORES, key, vector["version"]) + score + member).hex()
    assert (vector["index_id"], slot(name), name) == layout.parse_metadata_key(key)


@pytest.mark.parametrize("type_name", TYPES)
@pytest.mark.parametrize("vector", VECTORS["neokv"], ids=lambda vector: vector["key"][:40] or "empty")
def test_neokv_metadata(vector: dict[str, Any], type_name: str) -> None:
    """The metadata value of each type has the checked bytes, and parses back."""
    layout = NeoKV(vector["region_id"])
    metadata = _metadata(vector, TYPES[type_name])

    assert vector["values"][type_name] == layout.pack_metadata(metadata).hex()
    assert metadata == layout.parse_metadata(bytes.fromhex(vector["values"][type_name]))
