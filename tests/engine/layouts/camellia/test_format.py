"""The page of the `camellia` layouts, run: every example is what the engine writes, and it writes nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import engine.layouts.camellia
from engine.errors import CorruptionError
from engine.layouts.camellia import CamelliaV0, codec, keys
from engine.layouts.records import column_families
from engine.model import HASH, LIST, SET, ZSET, Metadata
from engine.proof.walk import live_keys
from engine.store.store import Changes
from slotlog.shared.errors import InvariantError
from tests.engine.harness import NOW_MS, apply, event, new_store, open_machine, records_of, send
from tests.layouts import layout_name, layout_of

PAGE = (Path(engine.layouts.camellia.__file__).parent / "FORMAT.md").read_text()
HEAD = bytes.fromhex("0000000000000001ffffffffffffffff")
EXAMPLE = re.compile(r"^\|[^|]*\| `([0-9a-f ]+)` \|(?: `([0-9a-f ]+)`)? \|$", re.MULTILINE)


def examples() -> Iterator[tuple[bytes, bytes]]:
    """The records that the page shows for the session's layout."""
    section = PAGE.partition(f"\n## Examples of `{layout_name()}`\n")[2].partition("\n## ")[0]
    for key, value in EXAMPLE.findall(section):
        yield bytes.fromhex(key), bytes.fromhex(value)


def test_every_example_is_what_is_written() -> None:
    """The records of the page are exactly those that its events leave: none differs, is missing or is hidden."""
    store = new_store()
    machine = open_machine(store)
    (block,) = re.findall(r"^```events\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
    for line in block.splitlines():
        db, text = line.split(" ", 1)
        apply(machine, event(machine.next_offset, text, db=int(db)))
    machine.commit(None)

    families = column_families(layout_of())
    assert sorted(examples()) == sorted((key, value) for name, key, value in records_of(store) if name in families)


def test_a_namespace_is_that_of_one_database() -> None:
    """All have one length, so no metadata key begins as one of another database does."""
    namespaces = [keys.namespace_of(db) for db in range(16)]

    assert [b"default", b"ns00001", b"ns00015"] == [namespaces[db] for db in (0, 1, 15)]
    assert {keys.NAMESPACE_BYTES} == set(map(len, namespaces))
    assert list(range(16)) == [keys.database_of(namespace) for namespace in namespaces]
    for foreign in (b"ns00000", b"ns0001 ", b"ns", b"", b"Default", b"ns\xb2\xb2\xb2\xb2\xb2"):
        assert keys.database_of(foreign) is None


@pytest.mark.parametrize("type_code", [HASH, SET, ZSET, LIST])
def test_a_count_that_has_no_place_is_refused(type_code: int) -> None:
    """A collection of 2^32 elements is named with what to do, and the largest that can be said is said."""
    largest = Metadata(type_code, 0, 1, codec.COUNT_MAX)

    assert largest == CamelliaV0.parse_metadata(CamelliaV0.pack_metadata(largest))
    with pytest.raises(InvariantError, match=r"of 4294967296 elements.* 4294967295 at most; .*--layout"):
        CamelliaV0.pack_metadata(largest._replace(size=codec.COUNT_MAX + 1))


@pytest.mark.layout("camellia-v0")
def test_a_batch_with_such_a_count_is_not_written() -> None:
    """The commit is refused before anything of it is in the store."""
    store = new_store()
    machine = open_machine(store)
    send(machine, "SADD s a")
    before = records_of(store)
    apply(machine, event(machine.next_offset, "SADD s b"))
    key = machine._tx.find(b"s")
    assert key is not None
    key.size = codec.COUNT_MAX + 1

    with pytest.raises(InvariantError, match="slotlog replay --layout"):
        machine.commit(None)
    machine.rollback()
    assert before == records_of(store)
    assert [1, 2] == send(machine, "SADD s b", "SCARD s")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (keys.metadata_key(b"default", b"a"), b""),
        (keys.metadata_key(b"default", b"a"), b"\0\6" + HEAD + bytes(4)),
        (keys.metadata_key(b"default", b"a"), b"\2\2" + HEAD + bytes(4)),
        (keys.metadata_key(b"default", b"a"), b"\1\4" + HEAD),
        (keys.metadata_key(b"default", b"a"), b"\0\2" + HEAD + bytes(3)),
        (keys.metadata_key(b"default", b"a"), b"\0\4" + HEAD + bytes(19)),
        (keys.metadata_key(b"default", b"a"), b"\0\1" + bytes(16)),
        (keys.metadata_key(b"default", b"a"), b"\0\1" + bytes(8) + b"\xff" * 7 + b"\xfe"),
        (keys.metadata_key(b"ns00000", b"a"), codec.pack_string(0, 0, b"")),
        (b"m#default12345678a", codec.pack_string(0, 0, b"")),
        (b"m#def", codec.pack_string(0, 0, b"")),
    ],
    ids=[
        *("empty", "unknown type", "unknown version", "list without a count", "cut", "cut list", "dies at 0"),
        *("dies before all time", "no database", "another hash", "cut key"),
    ],
)
@pytest.mark.damaging
def test_damaged_metadata_is_corrupt(key: bytes, value: bytes) -> None:
    """A metadata record that the layout did not write is named, never guessed at."""
    store = new_store()
    changes = Changes()
    changes.of("camellia")[key] = value
    store.write(changes)

    with pytest.raises(CorruptionError, match=r"metadata (key|value)"):
        list(live_keys(store, layout_of(), NOW_MS))
