"""Damage to what a store has of a snapshot: none is restored, and each is named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from engine.tables.system import FORMAT, RULES
from ops.config import load_settings
from ops.snapshots.choosing import Wanted, choose
from ops.snapshots.errors import SnapshotRefusedError
from ops.snapshots.restoring import restore_partition
from ops.snapshots.store import Listed, SnapshotStore
from ops.snapshots.verifying import verify
from tests.ops.snapshots.stores import MemoryObjects, snapshot_of, state_of

KINDS = {"table": ".sst", "list of tables": "MANIFEST-", "options": "OPTIONS-", "current": "CURRENT"}
"""Of each, one file is damaged in each way."""

Spoil = Callable[[MemoryObjects, Listed], None]


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> tuple[MemoryObjects, Listed]:
    """A store with one verified snapshot, which no test changes."""
    events = [{"cmd": "HSET", "args": [f"h{number % 7}", f"f{number}", "v" * 100]} for number in range(200)]
    objects = MemoryObjects()
    snapshot_of(SnapshotStore(objects), state_of(tmp_path_factory.mktemp("taken"), events))
    (snapshot,) = SnapshotStore(objects).listed("slotlog")
    assert snapshot.is_verified
    return objects, snapshot


def file_of(snapshot: Listed, kind: str) -> str:
    """The object of its first file of a kind."""
    return next(file.object for file in snapshot.usable().files if KINDS[kind] in file.name)


def flipped(data: bytes, at: int) -> bytes:
    """One bit is another."""
    return data[:at] + bytes([data[at] ^ 1]) + data[at:][1:]


WAYS: dict[str, Callable[[bytes], bytes]] = {
    "first bit flipped": lambda data: flipped(data, 0),
    "middle bit flipped": lambda data: flipped(data, len(data) // 2),
    "last bit flipped": lambda data: flipped(data, len(data) - 1),
    "one byte short": lambda data: data[:-1],
    "one byte more": lambda data: data + b"\0",
    "emptied": lambda data: b"",
    "zeroed": lambda data: bytes(len(data)),
    "doubled": lambda data: data + data,
}


def spoil_file(kind: str, way: str, objects: MemoryObjects, snapshot: Listed) -> None:
    """Change a file."""
    key = file_of(snapshot, kind)
    objects.put(key, WAYS[way](objects.contents[key][0]))


def lose_file(kind: str, objects: MemoryObjects, snapshot: Listed) -> None:
    """Delete a file."""
    objects.delete(file_of(snapshot, kind))


def swap_files(objects: MemoryObjects, snapshot: Listed) -> None:
    """Give two files each other's contents."""
    first, second = file_of(snapshot, "table"), file_of(snapshot, "options")
    objects.contents[first], objects.contents[second] = objects.contents[second], objects.contents[first]


def spoil_manifest(change: Callable[[bytes], bytes], objects: MemoryObjects, snapshot: Listed) -> None:
    """Change the manifest."""
    key = f"{snapshot.key}.json"
    objects.put(key, change(objects.contents[key][0]))


def edited(change: Callable[[dict[str, Any]], None], data: bytes) -> bytes:
    """A manifest with another value, in the form that it had."""
    raw = json.loads(data)
    change(raw)
    return json.dumps(raw, indent=1).encode() + b"\n"


def renamed(change: Callable[[dict[str, Any]], None], objects: MemoryObjects, snapshot: Listed) -> None:
    """Put a manifest in the place of another, with a name and a mark that fit it: somebody's doing."""
    data = edited(change, objects.contents.pop(f"{snapshot.key}.json")[0])
    del objects.contents[f"{snapshot.key}.verified"]
    found = sha256(data).hexdigest()
    key = f"snapshots/slotlog/0/{json.loads(data)['next_offset']}-{found[:16]}"
    objects.put(f"{key}.json", data)
    objects.put(f"{key}.verified", json.dumps({"manifest": found}).encode())


def without_table(raw: dict[str, Any]) -> None:
    """It names one table less."""
    raw["files"].remove(next(file for file in raw["files"] if file["name"].endswith(".sst")))


def spoil_mark(data: bytes, objects: MemoryObjects, snapshot: Listed) -> None:
    """Change the mark."""
    objects.put(f"{snapshot.key}.verified", data)


NO_MARK = "it is not verified"
MANIFEST_WAYS: dict[str, Callable[[bytes], bytes]] = {
    **WAYS,
    "edited": partial(edited, lambda raw: raw.update(keys=raw["keys"] + 1)),
}
DAMAGES: dict[str, tuple[Spoil, str]] = {
    **{f"{kind}: {way}": (partial(spoil_file, kind, way), "its file ") for kind in KINDS for way in WAYS},
    **{f"{kind}: missing": (partial(lose_file, kind), "is missing") for kind in KINDS},
    "two files swapped": (swap_files, "its file "),
    **{
        f"manifest: {name}": (partial(spoil_manifest, change), "its manifest is damaged")
        for name, change in MANIFEST_WAYS.items()
    },
    "manifest of a newer version": (partial(renamed, lambda raw: raw.update(version=3)), "version 3"),
    "manifest of another topic": (partial(renamed, lambda raw: raw.update(topic="other")), "of partition 0 of other"),
    "manifest of another partition": (
        partial(renamed, lambda raw: raw.update(partition=1)),
        "of partition 1 of slotlog",
    ),
    "manifest of later rules": (partial(renamed, lambda raw: raw.update(rules=RULES + 1)), f"rules {RULES + 1}"),
    "manifest of a newer format": (partial(renamed, lambda raw: raw.update(format=FORMAT + 1)), f"format {FORMAT + 1}"),
    "mark: missing": (lambda objects, snapshot: objects.delete(f"{snapshot.key}.verified"), NO_MARK),
    "mark: emptied": (partial(spoil_mark, b""), NO_MARK),
    "mark: of another manifest": (partial(spoil_mark, b'{"manifest": "00"}'), NO_MARK),
    "mark: a list": (partial(spoil_mark, b"[]"), NO_MARK),
    "mark: not text": (partial(spoil_mark, b"\xff\xfe"), NO_MARK),
}

LIES: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "a table less": (without_table, "it cannot be read"),
    "another position": (lambda raw: raw.update(next_offset=raw["next_offset"] + 1), "its position is 200"),
    "another clock": (lambda raw: raw.update(clock_ms=1), "its clock is"),
    "another digest": (lambda raw: raw.update(digest="00" * 32), "its digest is"),
    "another number of keys": (lambda raw: raw.update(keys=1), "its number of keys is 7, its manifest says 1"),
    "another mark of the last record": (lambda raw: raw.update(fingerprint="00"), "its mark of the last record is"),
    "another layout": (lambda raw: raw.update(layout="kvrocks"), "it cannot be read"),
    "another number of partitions": (lambda raw: raw.update(partitions=2), "it cannot be read"),
}


def spoilt(taken: tuple[MemoryObjects, Listed], spoil: Spoil) -> SnapshotStore:
    """A store like the one that was made, damaged."""
    objects = MemoryObjects()
    objects.contents = dict(taken[0].contents)
    spoil(objects, taken[1])
    assert objects.contents != taken[0].contents
    return SnapshotStore(objects)


@pytest.mark.parametrize(("spoil", "said"), DAMAGES.values(), ids=DAMAGES)
def test_damage_is_refused(spoil: Spoil, said: str, taken: tuple[MemoryObjects, Listed], tmp_path: Path) -> None:
    """Nothing is restored, nothing of it is left behind, and the reason names what is wrong."""
    store = spoilt(taken, spoil)
    candidates, refused = choose(store.listed("slotlog"), Wanted())
    reasons = [each.reason for each in refused]
    for candidate in candidates:
        with pytest.raises(SnapshotRefusedError) as caught:
            restore_partition(store, candidate, tmp_path / "to", load_settings())
        reasons.append(str(caught.value))

    assert [True] == [said in reason for reason in reasons], reasons
    assert not (tmp_path / "to").exists() or not any((tmp_path / "to").iterdir())


@pytest.mark.damaging
@pytest.mark.parametrize(("change", "said"), LIES.values(), ids=LIES)
def test_a_manifest_that_lies_is_not_verified(
    change: Callable[[dict[str, Any]], None], said: str, taken: tuple[MemoryObjects, Listed], tmp_path: Path
) -> None:
    """One that is whole and says something else than its files are is found out when it is restored to be verified."""
    store = spoilt(taken, partial(renamed, change))
    (snapshot,) = store.listed("slotlog")
    with pytest.raises(SnapshotRefusedError) as caught:
        verify(store, snapshot, load_settings(), tmp_path)

    assert said in str(caught.value)
    assert not store.is_offered(snapshot)
    assert [] == list(tmp_path.iterdir())


def test_there_are_enough_kinds() -> None:
    """There are fifty kinds of damage at least, and without any the snapshot is restored."""
    assert len(DAMAGES) + len(LIES) >= 50


def test_without_damage_it_is_restored(taken: tuple[MemoryObjects, Listed], tmp_path: Path) -> None:
    """The store that the others are copies of is sound."""
    store = SnapshotStore(taken[0])
    (snapshot,) = store.listed("slotlog")
    restore_partition(store, snapshot, tmp_path / "to", load_settings())

    assert (tmp_path / "to" / "0" / "CURRENT").exists()
    shutil.rmtree(tmp_path / "to")
