"""The records of Kvrocks: keys against checked examples, and values as its source and its tests have them.

V stands for the version 305120c0f2000005.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.errors import CorruptionError
from engine.layouts.kvrocks import Kvrocks, KvrocksCluster, fragments, keys, metadata
from engine.layouts.kvrocks.keys import DEFAULT_NAMESPACE, Owner
from engine.layouts.kvrocks.metadata import FieldTimes, KvrocksMetadata
from engine.layouts.layout import Kind
from engine.model import HASH, LIST, LIST_START, SET, STREAM, STRING, ZSET
from engine.values.encoding import pack_score
from engine.values.hyperloglog import dense
from slotlog.shared.slots import slot

VECTORS: dict[str, Any] = json.loads((Path(__file__).parents[2] / "vectors" / "encodings.json").read_text())

VERSION = 0x305120C0F2000005
NEVER = "00" * 8
DEFAULT = "0b5f5f6e616d657370616365"

VALUES = {
    "string": ("81" + NEVER + "626172", KvrocksMetadata(STRING, 0, tail=b"bar")),
    "narrow hash": ("02713fb300" + "V" + "00000003", KvrocksMetadata(HASH, 1_900_000_000_000, VERSION, 3, b"", False)),
    "narrow string": ("01713fb30078", KvrocksMetadata(STRING, 1_900_000_000_000, tail=b"x", is_wide=False)),
    "narrow list": (
        "0300000000" + "V" + "00000001" + "7fffffffffffffff8000000000000000",
        KvrocksMetadata(LIST, 0, VERSION, 1, metadata.pack_ends(LIST_START, LIST_START + 1), False),
    ),
    "bitmap": ("86" + NEVER + "V" + "0000000000002801", KvrocksMetadata(metadata.BITMAP, 0, VERSION, 10241)),
    "stream": (
        "88" + NEVER + "V" + "0000000000000001"
        "00000000000003e8000000000000000000000000000003e80000000000000000" + NEVER * 2 + "00000000000003e8"
        "000000000000000000000000000003e80000000000000000" + "0000000000000001" + NEVER,
        KvrocksMetadata(
            STREAM,
            0,
            VERSION,
            1,
            b"".join(n.to_bytes(8) for n in (1000, 0, 1000, 0, 0, 0, 1000, 0, 1000, 0, 1, 0)),
        ),
    ),
    "HyperLogLog": ("8b" + NEVER + "V" + NEVER + "00", KvrocksMetadata(metadata.HYPERLOGLOG, 0, VERSION, 0, b"\0")),
    "hash with field times": (
        "82" + NEVER + "V" + "0000000000000002" + "01" + "0000000000000001" + "000001ba60d33800" * 2,
        KvrocksMetadata(
            HASH,
            0,
            VERSION,
            2,
            metadata.pack_field_times(FieldTimes(1, 1_900_000_000_000, 1_900_000_000_000)),
        ),
    ),
    "set": ("84" + NEVER + "V" + "0000000000000001", KvrocksMetadata(SET, 0, VERSION, 1)),
    "empty zset": ("85" + NEVER + "V" + NEVER, KvrocksMetadata(ZSET, 0, VERSION, 0)),
    "JSON": ("8a" + NEVER + "00" + "7b7d", KvrocksMetadata(metadata.JSON, 0, tail=b"\0{}")),
    "bloom filter": (
        "89" + NEVER + "V" + NEVER + "00010002000000643ff0000000000000000003e8",
        KvrocksMetadata(metadata.BLOOM, 0, VERSION, 0, bytes.fromhex("00010002000000643ff0000000000000000003e8")),
    ),
    "time series": (
        "8d" + NEVER + "V" + NEVER + "ffff",
        KvrocksMetadata(metadata.TIME_SERIES, 0, VERSION, 0, b"\xff\xff"),
    ),
}


def of_hex(text: str) -> bytes:
    """The bytes; V is the version of the examples."""
    return bytes.fromhex(text.replace("V", f"{VERSION:016x}"))


# ---------------------------------------------------------------------- keys


@pytest.mark.parametrize("vector", VECTORS["kvrocks"], ids=lambda vector: f"{vector['key'][:20]}-{vector['cluster']}")
def test_the_checked_keys(vector: dict[str, Any]) -> None:
    """Metadata keys, subkeys and score keys have the checked bytes, with and without a slot, in the layouts too."""
    name, member, has_slot = bytes.fromhex(vector["key"]), bytes.fromhex(vector["member"]), vector["cluster"]
    owner = Owner(bytes.fromhex(vector["namespace"]), slot(name) if has_slot else None, name)
    prefix = keys.subkey_prefix(owner, vector["version"])
    scored = prefix + pack_score(float(vector["score"])) + member

    assert vector["metadata_key"] == keys.metadata_key(owner).hex()
    assert vector["subkey"] == (prefix + member).hex()
    assert vector["score_key"] == scored.hex()
    assert owner == keys.parse_metadata_key(keys.metadata_key(owner), has_slot=has_slot)
    layout = KvrocksCluster(0) if has_slot else Kvrocks(0)
    assert prefix == layout.prefix(Kind.DATA, keys.metadata_key(owner), vector["version"])
    assert (keys.metadata_key(owner), vector["version"]) == layout.owner(Kind.SCORES, scored)


def test_the_keys_of_the_default_namespace() -> None:
    """`foo` with and without its slot, and a fragment of a bitmap `b`."""
    assert DEFAULT + "666f6f" == keys.metadata_key(Owner(DEFAULT_NAMESPACE, None, b"foo")).hex()
    assert DEFAULT + "2f96666f6f" == keys.metadata_key(Owner(DEFAULT_NAMESPACE, slot(b"foo"), b"foo")).hex()
    fragment = keys.subkey_prefix(Owner(DEFAULT_NAMESPACE, None, b"b"), VERSION) + b"0"

    assert of_hex(DEFAULT + "0000000162" + "V" + "30") == fragment


@pytest.mark.parametrize(("record", "has_slot"), [("", False), ("0261", False), ("0161", True), ("016100", True)])
def test_a_metadata_key_that_is_cut_short_is_damage(record: str, has_slot: bool) -> None:
    """Without all of its namespace or its slot it is none."""
    with pytest.raises(CorruptionError, match="too short"):
        keys.parse_metadata_key(bytes.fromhex(record), has_slot=has_slot)


def test_a_namespace_has_up_to_255_bytes() -> None:
    """Its length is one byte, so a longer one is refused."""
    assert b"\xff" + b"n" * 255 == keys.namespace_prefix(b"n" * 255)
    with pytest.raises(ValueError, match="256 bytes"):
        keys.namespace_prefix(b"n" * 256)


# ---------------------------------------------------------------------- metadata


@pytest.mark.parametrize(("value", "expected"), VALUES.values(), ids=VALUES)
def test_values_of_every_type_are_read(value: str, expected: KvrocksMetadata) -> None:
    """Wide and narrow ones: type, time, version, size and tail; wide ones are written with the same bytes."""
    assert expected == metadata.parse(of_hex(value))
    assert of_hex(value) == metadata.pack(expected) or not expected.is_wide


def test_narrow_values_become_wide() -> None:
    """What is written again has 64-bit fields, and says the same."""
    narrow = metadata.parse(of_hex(VALUES["narrow hash"][0]))
    wide = metadata.pack(narrow)

    assert of_hex("82000001ba60d33800" + "V" + "0000000000000003") == wide
    assert narrow._replace(is_wide=True) == metadata.parse(wide)


@pytest.mark.parametrize(
    "value",
    [
        *("", "80", "8e" + NEVER + "V" + NEVER, "91" + NEVER, "c1" + NEVER, "81" + "00" * 7, "01" + "00" * 3),
        *("82" + NEVER + "V" + "00" * 7, "82" + NEVER + "V" + NEVER + "01", "84" + NEVER + "V" + NEVER + "00"),
        *("83" + NEVER + "V" + NEVER + "00" * 15, "88" + NEVER + "V" + NEVER + "00" * 90, "8b" + NEVER + "V" + NEVER),
    ],
)
def test_what_is_no_value_of_kvrocks_is_damage(value: str) -> None:
    """Unknown types, reserved bits and wrong lengths are named, never guessed at."""
    with pytest.raises(CorruptionError, match="is not of the kvrocks layout"):
        metadata.parse(of_hex(value))


@pytest.mark.parametrize("type_code", metadata.TYPE_NAMES)
def test_size_zero_stands_for_no_key(type_code: int) -> None:
    """In the types that Kvrocks removes with their last element, and in no other."""
    emptied = {HASH, LIST, SET, ZSET, metadata.BITMAP, metadata.SORTEDINT}

    assert (type_code in emptied) == KvrocksMetadata(type_code, 0, VERSION, 0).is_absent
    assert not KvrocksMetadata(type_code, 0, VERSION, 1).is_absent


def test_the_ends_of_a_list() -> None:
    """Head and tail are read as they were written."""
    assert (5, 9) == metadata.parse_ends(metadata.pack_ends(5, 9))


def test_the_times_of_fields() -> None:
    """The tail says how many fields have none and bounds of the others; each value has its time in front."""
    dies_ms = 1_900_000_000_000
    tail = metadata.parse(of_hex(VALUES["hash with field times"][0])).tail

    assert FieldTimes(1, dies_ms, dies_ms) == metadata.parse_field_times(tail)
    assert metadata.parse_field_times(b"") is None
    assert bytes.fromhex(NEVER + "31") == metadata.pack_field(0, b"1")
    assert bytes.fromhex("000001ba60d3380032") == metadata.pack_field(dies_ms, b"2")
    assert (dies_ms, b"2") == metadata.parse_field(metadata.pack_field(dies_ms, b"2"))


def test_unknown_forms_of_hashes_are_damage() -> None:
    """Another mode than that of field times, and a value that is too short for a time."""
    with pytest.raises(CorruptionError, match="encoding mode 2"):
        metadata.parse_field_times(b"\2" + bytes(24))
    with pytest.raises(CorruptionError, match="7 bytes"):
        metadata.parse_field(bytes(7))


# ---------------------------------------------------------------------- fragments


def test_bits_of_a_fragment_are_turned() -> None:
    """Bits 0, 9 and 8,191 of a fragment; in Redis' string each bit is counted from the left of its byte."""
    assert b"\x80\x40".ljust(1023, b"\0") + b"\1" == fragments.bitmap_fragment(b"\1\2".ljust(1023, b"\0") + b"\x80")


def test_a_fragment_of_a_bitmap_has_an_end() -> None:
    """It has at most 1024 bytes."""
    with pytest.raises(CorruptionError, match="none of a bitmap"):
        fragments.bitmap_fragment(b"1" * 1025)


def test_registers_of_a_hyperloglog() -> None:
    """PFADD of `a` sets register 12,711 to 2, which is byte 317 of fragment 12: as in Redis' dense string."""
    content = bytearray(768)
    content[317] = 8
    registers = fragments.join_registers([(b"12", bytes(content))])

    assert (12_288, 2) == (len(registers), dense.unpack(registers)[12711])
    assert [(b"12", bytes(content))] == list(fragments.split_registers(registers))


@pytest.mark.parametrize("fragment", [(b"16", bytes(768)), (b"-1", bytes(768)), (b"a", bytes(768)), (b"0", bytes(767))])
def test_what_is_no_fragment_of_a_hyperloglog_is_damage(fragment: fragments.Fragment) -> None:
    """There are 16 of 768 bytes."""
    with pytest.raises(CorruptionError, match="none of a HyperLogLog"):
        fragments.join_registers([fragment])
