"""The living fields of a hash are counted once, and remembered from then on."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from engine.cleaning.sweep import Sweeper
from engine.commands.registry import SPECS
from engine.layouts.layout import Form, Kind
from tests.engine.harness import FINGERPRINT, NOW_MS, WatchedStore, apply, event, open_machine, send
from tests.engine.stored import is_of

pytestmark = pytest.mark.form(Form.FIELD_TIMES)

FIELDS = 100


class WalkedStore(WatchedStore):
    """Counts the records of fields' times that scans give."""

    def __init__(self) -> None:
        super().__init__()
        self.walked = 0

    def scan(
        self, column_family: str, start: bytes, end: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """As any store."""
        for record in super().scan(column_family, start, end, reverse=reverse):
            self.walked += is_of(Kind.TIMES, column_family, start)
            yield record


def test_what_is_due_is_counted_once() -> None:
    """HLEN walks over the fields that are newly due, and over none while a sweep takes them away."""
    store = WalkedStore()
    machine = open_machine(store)
    for ms in (100, 200):
        fields = " ".join(f"f{ms}:{n} v" for n in range(FIELDS))
        send(machine, f"HSETEX h PX {ms} FIELDS {FIELDS} {fields}")
    send(machine, "HSET h alive 1")
    sweeper, walked = Sweeper(machine, store), []

    def length(ms: int) -> int:
        send(machine, "TICK", at_ms=NOW_MS + ms)
        before = store.walked
        (count,) = send(machine, "HLEN h", at_ms=NOW_MS + ms)
        walked.append(store.walked - before)
        assert isinstance(count, int)
        return count

    assert [201, 101, 101] == [length(ms) for ms in (99, 100, 101)]
    sweeper.expire(10)
    assert [101, 1, 1] == [length(ms) for ms in (101, 200, 201)]
    sweeper.expire(1000)
    assert 1 == length(201)
    assert [0, FIELDS, 0, 0, FIELDS, 0, 0] == walked


@pytest.mark.parametrize("seed", range(10))
def test_a_hash_is_as_long_as_it_has_fields(seed: int) -> None:
    """HLEN, HKEYS, HSCAN and HRANDFIELD agree, whatever was written, swept, thrown away, or read of a later time."""
    random = Random(seed)
    store = WatchedStore()
    machine = open_machine(store, key_cache_bytes=random.choice((0, 1 << 20)))
    sweeper, at_ms = Sweeper(machine, store), NOW_MS
    for _ in range(400):
        field, ms = f"f{random.randrange(30)}", random.choice((1, 5, 50))
        line = random.choice(
            (
                *(f"HSETEX h PX {ms} FIELDS 1 {field} v", f"HPEXPIRE h {ms} FIELDS 2 {field} f3", f"HSET h {field} v"),
                *(
                    f"HDEL h {field}",
                    f"HPERSIST h FIELDS 1 {field}",
                    "HSET h alive 1",
                    "COPY h d REPLACE",
                    "RENAME d h",
                ),
            )
        )
        at_ms += random.choice((0, 0, 1, 7))
        apply(machine, event(machine.next_offset, line, at_ms=at_ms))
        if random.randrange(3) == 0:
            machine.commit(FINGERPRINT)
            sweeper.expire(random.choice((1, 3, 100)))
        elif random.randrange(10) == 0:
            machine.rollback()
        if random.randrange(5) == 0:
            machine.evaluate(SPECS[b"HLEN"], [b"h"], 0, at_ms=at_ms + random.choice((1, 20)))
        for name in (b"h", b"d"):
            keys = machine.read(b"HKEYS", [name])
            assert isinstance(keys, list)
            drawn = machine.read(b"HRANDFIELD", [name, b"1000"])
            assert isinstance(drawn, list)
            assert len(keys) == machine.read(b"HLEN", [name])
            assert sorted(keys) == sorted(drawn)
            assert [b"0", keys] == machine.read(b"HSCAN", [name, b"0", b"NOVALUES"])
    machine.commit(FINGERPRINT)
