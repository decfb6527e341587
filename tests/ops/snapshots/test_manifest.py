"""A manifest says all of a state, and one that was changed is refused with the reason."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from engine.tables.system import FORMAT, RULES, Home
from ops.snapshots.errors import SnapshotRefusedError
from ops.snapshots.manifest import Manifest, SnapshotFile, name_of, parse_manifest, refusal

SHA = "ab" * 32
HOME = Home("orders", 1, 4, "neokv")


def manifest(**changed: Any) -> Manifest:
    """One with a single file."""
    fields: dict[str, Any] = {
        "slotlog": "0.1.0",
        "topic": "orders",
        "partition": 1,
        "partitions": 4,
        "layout": "neokv",
        "format": FORMAT,
        "rules": RULES,
        "next_offset": 1200,
        "clock_ms": 17,
        "fingerprint": b"\x00\xff",
        "digest": "cd" * 32,
        "keys": 3,
        "taken_ms": 19,
        "files": (SnapshotFile(name="CURRENT", size=5, sha256=SHA, object=f"files/{SHA}.00ff00ff"),),
    }
    return Manifest(**{**fields, **changed})


@pytest.mark.parametrize("fingerprint", [None, b"", b"\x00\xff" * 18])
def test_a_round(fingerprint: bytes | None) -> None:
    """Parsed again it is the same, with or without a mark of the last record."""
    made = manifest(fingerprint=fingerprint)
    data = made.pack()

    assert made == parse_manifest(data, name_of(1200, data))
    assert HOME == made.home


def test_the_version_before() -> None:
    """A manifest of version 1 has no chain, and is read as it was written."""
    raw = json.loads(manifest(version=1, chain=None).pack())
    del raw["chain"]
    data = json.dumps(raw).encode()
    parsed = parse_manifest(data, name_of(1200, data))

    assert (1, None, 1200, HOME) == (parsed.version, parsed.chain, parsed.next_offset, parsed.home)


def changed(name: str, value: Any) -> bytes:
    """The bytes of a manifest with one value changed, or without it."""
    raw = json.loads(manifest().pack())
    if value is None:
        del raw[name]
    else:
        raw[name] = value
    return json.dumps(raw).encode()


FILE: dict[str, Any] = json.loads(manifest().pack())["files"][0]
DAMAGES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "it is no JSON"),
    "cut": (manifest().pack()[:-20], "it is no JSON"),
    "not text": (b"\xff\xfe", "it is no JSON"),
    "another kind": (b"[]", "its manifest is damaged: "),
    "a null": (b"null", "its manifest is damaged: "),
    "a newer version": (changed("version", 3), "version 3, this slotlog knows 2; use a newer release"),
    "a version that is none": (changed("version", "1"), "damaged: version"),
    "no topic": (changed("topic", None), "damaged: topic: Field required"),
    "one more field": (changed("color", "red"), "damaged: color: Extra inputs"),
    "a negative position": (changed("next_offset", -1), "damaged: next_offset"),
    "a position beyond 64 bits": (changed("next_offset", 1 << 64), "damaged: next_offset"),
    "a text for a number": (changed("clock_ms", "17"), "damaged: clock_ms"),
    "a short digest": (changed("digest", "cd"), "damaged: digest"),
    "a digest with a newline": (changed("digest", "cd" * 32 + "\n"), "damaged: digest"),
    "a mark that is not hexadecimal": (changed("fingerprint", "xy"), "damaged: fingerprint"),
    "no files": (changed("files", []), "it names no file CURRENT"),
    "a file twice": (changed("files", [FILE, FILE]), "it names a file twice"),
    "a way out": (changed("files", [{**FILE, "name": "../CURRENT"}]), "damaged: files.0.name"),
    "a hidden file": (changed("files", [{**FILE, "name": ".CURRENT"}]), "damaged: files.0.name"),
    "an object elsewhere": (changed("files", [{**FILE, "object": f"snapshots/{SHA}"}]), "damaged: files.0.object"),
    "another object": (
        changed("files", [{**FILE, "object": f"files/{'ff' * 32}.00ff00ff"}]),
        "is that of other contents",
    ),
    "another position": (changed("next_offset", 1201), "its checksum is not the one in its name"),
}


@pytest.mark.parametrize(("data", "said"), DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_manifest_is_refused(data: bytes, said: str) -> None:
    """The reason says which part is wrong."""
    with pytest.raises(SnapshotRefusedError) as caught:
        parse_manifest(data, name_of(1200, manifest().pack()))

    assert said in str(caught.value)


def test_every_flipped_bit_is_found() -> None:
    """Whatever bit of a manifest is flipped, it is refused."""
    data = manifest().pack()
    name = name_of(1200, data)
    accepted = []
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            accepted.append(parse_manifest(bytes(flipped), name))
        except SnapshotRefusedError:
            continue

    assert [] == accepted


@pytest.mark.parametrize(
    ("home", "made", "said"),
    [
        (HOME, manifest(), ""),
        (replace(HOME, topic="others"), manifest(), "its topic is orders, not others"),
        (replace(HOME, partition=2), manifest(), "its partition is 1, not 2"),
        (replace(HOME, partitions=8), manifest(), "its number of partitions is 4, not 8"),
        (replace(HOME, layout="kvrocks"), manifest(), "its layout is neokv, not kvrocks"),
        (HOME, manifest(format=FORMAT + 1), f"format {FORMAT + 1}, this slotlog knows {FORMAT}"),
        (HOME, manifest(rules=RULES + 1), f"rules {RULES + 1}, this slotlog knows {RULES}; use a newer release"),
    ],
)
def test_what_does_not_fit_is_refused(home: Home, made: Manifest, said: str) -> None:
    """A snapshot of another state, or of a newer slotlog, is not restored."""
    assert said in refusal(made, home)
    assert (said == "") == (refusal(made, home) == "")
