"""The commands for keys of any type write little."""

from __future__ import annotations

import pytest

from engine.layouts.layout import Kind
from engine.model import HASH
from engine.store.memory import MemoryStore
from engine.store.store import EXPIRY_CF, GRAVEYARD_CF, SHARED_CFS, SYSTEM_CF, Changes
from engine.tables.graveyard import parse_grave
from engine.values.encoding import pack_u64
from engine.values.replies import pack, unpack
from tests.engine.harness import FAMILIES, NOW_MS, family, new_store, open_machine, send
from tests.engine.stored import key_of, stored, written
from tests.layouts.differences import count_of

KEY = key_of(b"k")


class RecordingStore(MemoryStore):
    """A store that keeps the last batch it was given."""

    last: Changes

    def write(self, changes: Changes) -> None:
        """Remember the batch and apply it."""
        self.last = changes
        super().write(changes)


@pytest.mark.parametrize("command", ["DEL", "UNLINK", "EXPIRE"])
@pytest.mark.parametrize("fields", [1, 1000])
def test_deleting_writes_the_metadata_alone(command: str, fields: int) -> None:
    """Of whatever size the hash was: one metadata record, one expiry entry and one grave are written, and no range."""
    store = RecordingStore(FAMILIES)
    machine = open_machine(store)
    send(machine, "HSET k " + " ".join(f"f{n} v" for n in range(fields)), "EXPIRE k 5")

    assert [1] == send(machine, f"{command} k" + (" -1" if command == "EXPIRE" else ""))

    expiry = {pack_u64(NOW_MS + 5000) + KEY: None}
    [(grave, content)] = store.last.of(GRAVEYARD_CF).items()
    assert content is not None
    died_ms, _, *rest = parse_grave(grave, content)
    assert [NOW_MS, HASH, count_of(fields), KEY] == [died_ms, *rest]
    assert ({KEY: None}, expiry) == (written(store.last, Kind.METADATA), store.last.of(EXPIRY_CF))
    assert [] == store.last.ranges
    assert [] == [kind for kind in Kind if kind != Kind.METADATA and written(store.last, kind)]
    assert {EXPIRY_CF, GRAVEYARD_CF, SYSTEM_CF} == {name for name in SHARED_CFS if store.last.values.get(name)}
    assert fields == len(stored(store, Kind.DATA))


def test_a_key_named_twice_dies_once() -> None:
    """DEL counts it once, EXISTS twice, and there is one grave."""
    store = new_store()

    assert [1, 2, 1] == send(open_machine(store), "HSET k f 1", "EXISTS k k", "DEL k k")
    assert 1 == len(family(store, GRAVEYARD_CF))


@pytest.mark.parametrize(
    ("changes", "expire_ms"),
    [
        (["EXPIRE k 5"], NOW_MS + 5000),
        (["EXPIRE k 5", "EXPIRE k 6"], NOW_MS + 6000),
        (["EXPIRE k 5", "EXPIRE k 5"], NOW_MS + 5000),
        (["EXPIRE k 5", "PERSIST k", "EXPIRE k 5"], NOW_MS + 5000),
        (["EXPIRE k 5", "EXPIRE k 6 LT"], NOW_MS + 5000),
        (["EXPIRE k 5", "PERSIST k"], 0),
        (["EXPIRE k 5", "DEL k"], 0),
        (["EXPIRE k 5", "DEL k", "HSET k f 1"], 0),
        (["EXPIRE k 5", "EXPIREAT k 1"], 0),
    ],
)
@pytest.mark.parametrize("batch", [1, 4])
def test_a_key_has_at_most_one_expiry_entry(changes: list[str], expire_ms: int, batch: int) -> None:
    """After any of these changes, in one batch or in several, the index lists the key under its own time alone."""
    store = new_store()
    machine = open_machine(store)
    commands = ["HSET k f 1", *changes]
    for start in range(0, len(commands), batch):
        send(machine, *commands[start : start + batch])

    assert ([pack_u64(expire_ms) + KEY] if expire_ms else []) == list(family(store, EXPIRY_CF))


def test_a_key_is_dead_at_its_expire_time() -> None:
    """One millisecond before it is there; at its time it is not, although its record waits to be cleaned up."""
    store = new_store()
    machine = open_machine(store)
    send(machine, "SET k v PX 10")

    assert [1, 1, 0] == send(machine, "PTTL k", "EXISTS k", "TTL k", at_ms=NOW_MS + 9)
    assert [-2, 0, -2, 0] == send(machine, "PTTL k", "EXISTS k", "TTL k", "DEL k", at_ms=NOW_MS + 10)
    assert [KEY] == list(stored(store, Kind.METADATA))
    assert 1 == machine.read(b"DBSIZE", [])


def test_a_due_collection_is_buried_when_its_name_is_used_again() -> None:
    """The new hash has none of the old fields, the old one a grave, and the index no entry."""
    store = new_store()
    machine = open_machine(store)
    send(machine, "HSET k f 1", "PEXPIRE k 10")

    assert [1, [b"g", b"2"]] == [
        send(machine, "HSET k g 2", at_ms=NOW_MS + 10)[0],
        [part for pair in machine.read(b"HGETALL", [b"k"]) for part in pair],
    ]
    assert (1, {}) == (len(family(store, GRAVEYARD_CF)), family(store, EXPIRY_CF))


def test_an_unknown_condition_is_repeated_as_it_came() -> None:
    """Up to its first NUL, without line ends, in bytes that need not be UTF-8, through the idempotency table too."""
    machine = open_machine(new_store())
    machine.apply([(0, NOW_MS, b"EXPIRE", [b"k", b"1", b"n\xff\r\no\0p"], 0, b"id", None)], 0, waiting={0})
    [reply] = machine.apply([(1, NOW_MS, b"EXPIRE", [b"k", b"1"], 0, b"id", None)], 1, waiting={1}).outcomes.values()

    assert b"ERR Unsupported option n\xff  o" == reply.message.encode(errors="surrogateescape")
    assert reply.message == unpack(pack(reply)).message
