"""Loops and verbs that are written out for speed do what the plain ones do."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from engine.apply.machine import Machine
from engine.batch.transaction import Transaction
from engine.layouts.layout import Kind
from engine.layouts.records import records_of
from engine.model import HASH, NONE, SET, ZSET
from engine.store.store import EXPIRY_CF, Changes, Store
from engine.types.hash import hash_fields
from engine.values.encoding import pack_u64
from tests.engine.harness import FINGERPRINT, NOW_MS, apply, event, new_store, open_machine, send
from tests.engine.stored import written
from tests.layouts import layout_of
from tests.layouts.differences import is_uncounted

LAYOUT = layout_of()
COMMANDS = (
    "SET s {n}", "APPEND t {n}", "SETRANGE large 131072 {n}", "SET s 1 PX 9{n}", "DEL {key}", "PEXPIRE {key} 9{n}",
    "PERSIST {key}", "HSET h {n} v", "HDEL h {n}", "HINCRBY h {n} 1", "RPUSH l {n}", "LPOP l", "LPUSH l {n}",
    "SADD m {n}", "SREM m {n}", "ZADD z {n} {n}", "ZREM z {n}", "ZPOPMIN z",
)  # fmt: skip
KEYS = ("s", "t", "large", "h", "l", "m", "z")


def plainly(machine: Machine, store: Store) -> Changes:
    """What a batch has to write of its keys, by the definition: kind by kind, and no kind knows of another one.

    Where nobody counts, an element more or less leaves the metadata record as it is stored.
    """
    changes = Changes()
    for key in machine._tx._touched:
        if key.changed:
            value = None if key.type == NONE else LAYOUT.pack_metadata(key)
            uncounted = is_uncounted() and key.type in {HASH, SET}
            if not (uncounted and value == store.getter(LAYOUT.families[Kind.METADATA])(key.metadata_key)):
                changes.of(LAYOUT.families[Kind.METADATA])[key.metadata_key] = value
            if key.type == ZSET and Kind.COUNTS in LAYOUT.families:  # where an index has the members
                counts = changes.of(LAYOUT.families[Kind.COUNTS])
                counts[LAYOUT.prefix(Kind.COUNTS, key.metadata_key, key.version)] = pack_u64(key.size)
        for subkeys in key.families():
            for subkey, value in subkeys.changed.items():
                changes.of(subkeys.column_family)[subkeys.prefix + subkey] = value
    return changes


def some_records(seed: int, offset: int) -> list[str]:
    """Commands on a few keys."""
    draw = random.Random(seed * 1000 + offset)
    return [
        draw.choice(COMMANDS).format(n=draw.randrange(12), key=draw.choice(KEYS)) for _ in range(draw.randrange(1, 30))
    ]


@pytest.mark.parametrize("seed", range(6))
def test_a_batch_writes_what_its_keys_have_changed(seed: int) -> None:
    """The metadata of each changed key and each changed subkey of every kind, and nothing else of the keys."""
    store = new_store()
    machine = open_machine(store)
    for _ in range(12):
        start = machine.next_offset
        lines = some_records(seed, start)
        apply(machine, *(event(start + n, line, at_ms=NOW_MS + start + n) for n, line in enumerate(lines)))
        buried = machine._tx.batch.copy()  # elements of collections that died in the batch
        expected = plainly(machine, store)
        changes = machine._tx.changes()
        for kind in Kind:
            assert {**written(buried, kind), **written(expected, kind)} == written(changes, kind)
        assert all(key.place == key.expire_ms for key in machine._tx._touched if key.times is None)
        machine.commit(FINGERPRINT)


@pytest.mark.parametrize("seed", range(3))
def test_after_a_batch_no_key_has_anything_to_write(seed: int) -> None:
    """Every kind of every key that stays in memory is clean, in place in the expiry index, and no longer fresh."""
    store = new_store()
    machine = open_machine(store)
    for _ in range(6):
        send(machine, *some_records(seed, machine.next_offset))
        keys = [key for keys in machine._tx._overlay.databases.values() for key in keys.values()]
        families = [subkeys for key in keys for subkeys in key.families()]

        assert [] == [key.name for key in keys if key.changed or key.touched or key.indexed_expire_ms != key.place]
        assert [] == [subkeys.prefix for subkeys in families if subkeys.changed or subkeys.order or subkeys.fresh]


def put_plainly(tx: Transaction, name: bytes, field: bytes, value: bytes) -> int:
    """HSET of one field by the verb for any number of them."""
    return hash_fields.put(tx, name, tx.find_typed(name, HASH), [field, value])


@pytest.mark.parametrize("lines", [[], ["HSET h f old"], ["HSET h g 1"], ["SET h 1 PX 1"]])
def test_one_field_is_put_as_several_are(lines: list[str]) -> None:
    """The verb for one field replies and leaves what the verb for several does."""

    def outcome(put: Callable[[Transaction, bytes, bytes, bytes], int]) -> tuple[int, object]:
        machine = open_machine(new_store())
        send(machine, *lines)
        apply(machine, event(machine.next_offset, "SET other 1", at_ms=NOW_MS + 5))
        return put(machine._tx, b"h", b"f", b"v"), machine._tx.image()

    assert outcome(put_plainly) == outcome(hash_fields.put_single)


def test_subkeys_are_bound_where_the_layout_says() -> None:
    """The kinds, families and prefixes of a key in memory are among those that the layout has for its type."""
    machine = open_machine(new_store())
    send(machine, "HSET h f v", "RPUSH l a", "SADD m a", "ZADD z 1 a", "SET s 1")
    found = 0
    for key in machine._tx._overlay.databases[0].values():
        bound = {(subkeys.column_family, subkeys.prefix) for subkeys in key.families()}
        said = [each[1:] for each in records_of(LAYOUT, key.metadata_key, key.version, key.type)]
        found += len(bound)
        assert bound <= set(said)

    assert 5 == found
    assert EXPIRY_CF not in LAYOUT.families.values()
