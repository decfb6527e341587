"""KEYS within a script: the same list at every replay, whatever was cleaned up, on every layout."""

from __future__ import annotations

from typing import Any, Final

import pytest

from engine.cleaning.all import clean_all
from engine.layouts.layout import Form
from tests.engine.commands.scripting.harness import outcome, record
from tests.engine.harness import FINGERPRINT, NOW_MS, new_store, open_machine
from tests.layouts import holds

LISTING: Final = "return redis.call('KEYS', ARGV[1])"
WRITING: Final = f"redis.call('SET', 'b', '1') {LISTING}"
LATER_MS: Final = NOW_MS + 10_000

TIMED: Final = ["HSET timed f 1", "HEXPIRE timed 5 FIELDS 1 f"] if holds(Form.FIELD_TIMES) else ["SET timed 1 EX 5"]
EARLY: Final = [
    *("SET flushed 1", "FLUSHDB", "SET q 1", "SET c 1", "SADD z x", "SET a 1", "SET due 1 EX 5"),
    *("SADD emptied x", "SREM emptied x", "HSET h f 1", "SET {b}1 1", "SET {a}2 1", *TIMED),
]
ALIVE: Final = [b"a", b"c", b"due", b"h", b"q", b"timed", b"z", b"{a}2", b"{b}1"]


def listings(batch: int, *, is_cleaned: bool) -> list[Any]:
    """What scripts list before keys are due, after that, and as a read; batches of so many records."""
    store = new_store()
    machine = open_machine(store)
    early = [*map(str.split, EARLY), ["EVAL", LISTING, "0", "*"]]
    late = [["DEL", "z"], ["EVAL", WRITING, "0", "[^h]*"]]
    records = [record(number, *words) for number, words in enumerate(early)]
    records += [record(len(early) + number, *words, at_ms=LATER_MS) for number, words in enumerate(late)]
    outcomes: dict[int, Any] = {}
    for start in range(0, len(records), batch):
        some = records[start : start + batch]
        outcomes |= machine.apply(some, start, waiting=range(len(records))).outcomes
        machine.commit(FINGERPRINT)
        if is_cleaned:
            clean_all(machine, store)
    return [
        outcomes[len(early) - 1],
        outcomes[len(records) - 1],
        machine.read(b"EVAL_RO", [LISTING.encode(), b"0", b"*"]),
    ]


@pytest.mark.parametrize("is_cleaned", [False, True])
@pytest.mark.parametrize("batch", [1, 4, 100])
def test_keys_go_by_log_time_and_in_order(batch: int, is_cleaned: bool) -> None:
    """A script lists what is alive at its record by name, also if the batch, or the cleaner, is not that far."""
    alive = [b"a", b"b", b"c", b"q", b"{a}2", b"{b}1"]

    assert [ALIVE, alive, sorted([*alive, b"h"])] == listings(batch, is_cleaned=is_cleaned)


def test_other_lists_of_keys_are_refused() -> None:
    """What names keys at random, in pieces, or counts what is due is no part of an event."""
    machine = open_machine(new_store())
    refused = [outcome(machine, "EVAL", f"return redis.call({words})", "0") for words in ("'SCAN', '0'", "'RANDOMKEY'")]

    assert [
        "ERR SCAN reads what is physically there: a script that is an event cannot call it, EVAL_RO can",
        "ERR RANDOMKEY reads what is physically there: a script that is an event cannot call it, EVAL_RO can",
    ] == [reply.message.partition(" script: ")[0] for reply in refused]
