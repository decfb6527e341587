"""Keys and metadata against checked examples (tests/vectors/encodings.json, which says them as hex)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.layouts.camellia import codec, keys
from engine.model import HASH, LIST, SET, STRING, UNCOUNTED, ZSET, Metadata
from engine.values.encoding import pack_score

_ALL: dict[str, list[dict[str, Any]]] = json.loads(
    (Path(__file__).parents[3] / "vectors" / "encodings.json").read_text()
)
VECTORS = _ALL["camellia"]
ENDS_OF = {vector["version"]: (vector["head"], vector["tail"]) for vector in _ALL["neokv"]}
"""The ends of the lists: those of the same keys in `neokv`."""
COUNTED = {"hash_v0": HASH, "set_v0": SET, "zset_v0": ZSET, "list_v0": LIST}
UNCOUNTED_FORMS = {"hash_v1": HASH, "set_v1": SET}
all_vectors = pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["key"][:40] or "empty")


def expire_ms_of(vector: dict[str, Any]) -> int:
    """When the key of a vector dies, as the engine says it."""
    return max(int(vector["expire_ms"]), 0)


@all_vectors
def test_keys(vector: dict[str, Any]) -> None:
    """Metadata keys, subkeys and score keys have the checked bytes, in any namespace."""
    namespace, name, member = (bytes.fromhex(vector[each]) for each in ("namespace", "key", "member"))
    members, scores = (
        keys.subkey_prefix(tag, namespace, name, vector["key_version"]) for tag in (keys.SUBKEY, keys.SCORE)
    )

    assert vector["meta_key"] == keys.metadata_key(namespace, name).hex()
    assert vector["subkey"] == (members + member).hex()
    assert vector["score_key"] == (scores + pack_score(float(vector["score"])) + member).hex()


@all_vectors
def test_strings(vector: dict[str, Any]) -> None:
    """The metadata value of a string has the checked bytes; parsed it is that string, whatever its version."""
    value, expire_ms = bytes.fromhex(vector["member"]), expire_ms_of(vector)
    packed = codec.pack_string(vector["key_version"], expire_ms, value)

    assert vector["meta_string"] == packed.hex()
    assert Metadata(STRING, expire_ms, value=value) == codec.parse_metadata(packed)


@pytest.mark.parametrize("form", COUNTED)
@all_vectors
def test_collections_with_a_count(vector: dict[str, Any], form: str) -> None:
    """The metadata value of each type has the checked bytes, and parses back."""
    packed = bytes.fromhex(vector[f"meta_{form}"])
    metadata = codec.parse_metadata(packed)
    expected = Metadata(COUNTED[form], expire_ms_of(vector), vector["key_version"], vector["count"])
    if expected.type == LIST:
        head, tail = ENDS_OF[vector["key_version"]]
        expected = expected._replace(head=head, tail=tail)

    assert expected == metadata
    assert packed == codec.pack_metadata(metadata)


@pytest.mark.parametrize("form", UNCOUNTED_FORMS)
@all_vectors
def test_collections_without_a_count(vector: dict[str, Any], form: str) -> None:
    """The metadata value of a hash and of a set has the checked bytes, and parses back to one that nobody counted."""
    packed = bytes.fromhex(vector[f"meta_{form}"])
    expected = Metadata(UNCOUNTED_FORMS[form], expire_ms_of(vector), vector["key_version"], UNCOUNTED)

    assert expected == codec.parse_without_count(packed)
    assert packed == codec.pack_without_count(expected)
