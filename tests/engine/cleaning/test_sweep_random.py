"""Sweeping at random moments: no reply, no digest and, after a full clean, not one byte tells when it happened."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from engine.apply.machine import Machine, Record
from engine.cleaning.reclaim import Reclaimer
from engine.cleaning.sweep import Sweeper
from engine.errors import CommandError
from engine.layouts.layout import Form
from engine.proof.digest import digest
from engine.store.rocks import RocksStore
from engine.store.store import EXPIRY_CF, Store
from tests.consistency import problems
from tests.engine.harness import FINGERPRINT, apply, family, new_store, open_machine, records_of, send, shape
from tests.engine.workload import FIELDS, KEYS, random_records
from tests.layouts import column_families, layout_of

READS: list[Callable[[bytes], tuple[bytes, list[bytes]]]] = [
    lambda name: (b"DUMP", [name]),
    lambda name: (b"EXISTS", [name, name]),
    lambda name: (b"HVALS", [name]),
    lambda name: (b"HMGET", [name, *FIELDS]),
    lambda name: (b"HPEXPIRETIME", [name, b"FIELDS", b"5", *FIELDS]),
    lambda name: (b"SORT", [name, b"BY", b"nosort", b"GET", b"*->f"]),
    lambda name: (b"PEXPIRETIME", [name]),
]
"""Commands that might tell what is stored of a key; as events, so that they meet a batch in the making too."""

SESSIONS = [b"session of ann..", b"session of bob.."]
HOURS_MS = 60 * 60 * 1000


def history(seed: int, count: int) -> list[Record]:
    """Records of all kinds, sessions that watch, databases that change places, hashes that are restored."""
    random = Random(seed)
    payload = send(open_machine(new_store()), "HSETEX h PXAT 1700000000300 FIELDS 2 f 1 g 2", "HSET h h 3", "DUMP h")[2]
    records: list[Record] = []
    late_ms = 0
    for record in random_records(seed, count):
        offset, time_ms, *_ = record
        late_ms += 11 * HOURS_MS if random.random() < 0.003 else 0
        at_ms = time_ms + late_ms if time_ms > 0 else time_ms
        session = random.choice(SESSIONS)
        name = random.choice(KEYS)
        others: list[Record] = [
            (offset, at_ms, b"WATCH", [name], 0, None, session),
            (offset, at_ms, b"EXEC", [[b"INCR", b"n"]], 0, None, session),
            (offset, at_ms, b"RESTORE", [name, b"0", payload, b"REPLACE"], 0, None, None),
            (
                offset,
                at_ms,
                b"HSETEX",
                [name, b"PX", b"5", b"FIELDS", b"1", random.choice(FIELDS), b"v"],
                0,
                None,
                None,
            ),
            (offset, at_ms, *random.choice(READS)(name), 0, None, None),
            (offset, at_ms, b"SWAPDB", [b"0", b"%d" % random.choice([1, 2])], 0, None, None),
        ]
        others += [others[3]] * 3
        records.append(random.choice(others) if random.random() < 0.25 else (offset, at_ms, *record[2:]))
    return records


def store_of(seed: int, tmp_path: Path) -> Store:
    """An empty store: of some seeds on the disk."""
    return RocksStore(tmp_path / "0", column_families()) if seed % 3 == 0 else new_store()


def asked(machine: Machine, name: bytes) -> list[object]:
    """What those commands say that cannot be events."""
    reads = [(b"HSCAN", [name, b"0"]), (b"OBJECT|ENCODING", [name]), (b"KEYS", [b"*"])]
    replies: list[object] = []
    for command, args in reads:
        try:
            replies.append(shape(machine.read(command, args)))
        except CommandError as error:
            replies.append(error.message)
    return replies


def clean(machine: Machine, store: Store) -> None:
    """Everything, until nothing is left."""
    sweeper, reclaimer = Sweeper(machine, store), Reclaimer(machine, store)
    while sweeper.expire(100).more:
        pass
    sweeper.forget()
    while reclaimer.reclaim(1000).more:
        pass


@pytest.mark.parametrize("seed", range(6))
def test_when_a_state_is_swept_makes_no_difference(seed: int, tmp_path: Path) -> None:
    """Swept between any two batches, to the end or a little: the same replies, digests, and in the end records."""
    random = Random(seed)
    left, swept = open_machine(left_store := new_store()), open_machine(store := store_of(seed, tmp_path))
    sweeper = Sweeper(swept, store)
    keys = fields = forgotten = 0
    for at, record in enumerate(history(seed, 2000)):
        replies = [
            [(offset, shape(reply)) for offset, reply in apply(machine, record).outcomes.items()]
            for machine in (left, swept)
        ]
        assert replies[0] == replies[1], (at, record)
        if random.random() < 0.6:
            for machine in (left, swept):
                machine.commit(FINGERPRINT)
            if random.random() < 0.7:
                result = sweeper.expire(random.choice([1, 2, 5, 100]))
                keys += len(result.keys)
                fields += sum(count for db, name, count in result.fields if (db, name) not in result.keys)
            if random.random() < 0.1:
                forgotten += sum(sweeper.forget()[:2])
            if random.random() < 0.05:
                swept.rollback()
                sweeper = Sweeper(swept, store)
            name = random.choice(KEYS)
            assert asked(left, name) == asked(swept, name)
            if at % 10 == 0:
                assert [] == problems(store)
                assert digest(left_store, layout_of(), left.clock_ms) == digest(store, layout_of(), swept.clock_ms)
    for machine, its in ((left, left_store), (swept, store)):
        machine.commit(FINGERPRINT)
        clean(machine, its)
        assert min(family(its, EXPIRY_CF), default=b"\xff") > machine.clock_ms.to_bytes(8, "big")

    timed = Form.FIELD_TIMES in layout_of().forms
    assert keys > (30 if timed else 20)
    assert fields > 10 or not timed
    assert forgotten > 0
    assert records_of(left_store) == records_of(store)
    store.close()
