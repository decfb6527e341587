"""HSCAN, SSCAN and ZSCAN within a script: from rules 4 on the same reply at every replay, on every layout."""

from __future__ import annotations

from typing import Any, Final

import pytest

from engine.apply.machine import Machine
from engine.cleaning.all import clean_all
from engine.layouts.layout import Form
from engine.tables.system import RULES_OF_SCANS_IN_SCRIPTS
from tests.engine.commands.scripting.harness import outcome, record
from tests.engine.harness import FINGERPRINT, NOW_MS, new_store, open_machine

RULES: Final = ["RULES", str(RULES_OF_SCANS_IN_SCRIPTS)]
MANY: Final = [f"m{number:03}" for number in range(300)]
SCAN: Final = "return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))"
LATER_MS: Final = NOW_MS + 10_000


def filled(*, rules: bool = True) -> Machine:
    """A machine with a hash, a set and a sorted set of 300 elements each; the highest score is the first member's."""
    machine = open_machine(new_store())
    fillings = [
        ["HSET", "h", *(word for name in MANY for word in (name, "v"))],
        ["SADD", "s", *MANY],
        ["ZADD", "z", *(word for score, name in enumerate(MANY) for word in (str(300 - score), name))],
    ]
    for words in ([RULES] if rules else []) + fillings:
        outcome(machine, *words)
    return machine


def scanned(machine: Machine, name: str, key: str, *words: str) -> Any:
    """What a script that is an event gets."""
    return outcome(machine, "EVAL", SCAN, "1", key, name, *words)


@pytest.mark.parametrize(("name", "key"), [("HSCAN", "h"), ("SSCAN", "s"), ("ZSCAN", "z")])
def test_script_gets_all_at_once(name: str, key: str) -> None:
    """COUNT is a hint: the first call gives every element and the cursor 0; MATCH still chooses."""
    machine = filled()
    width = 1 if name == "SSCAN" else 2

    cursor, found = scanned(machine, name, key, "0", "COUNT", "10")
    matched = scanned(machine, name, key, "0", "MATCH", "m00[12]")[1]

    assert (b"0", {*map(str.encode, MANY)}, 300) == (cursor, {*found[::width]}, len(found[::width]))
    assert [b"m001", b"m002"] == sorted(matched[::width])


def test_sorted_set_comes_by_score() -> None:
    """All of a sorted set at once is in the order of scores, as a small one is for any client."""
    found = scanned(filled(), "ZSCAN", "z", "0")[1]

    assert [b"m299", b"1", b"m298", b"2"] == found[:4]


def test_script_goes_on_from_a_cursor() -> None:
    """A cursor that a client's scan gave is good in a script: it gets all that is behind, and nothing else."""
    machine = filled()
    cursor, first = machine.read(b"HSCAN", [b"h", b"0", b"COUNT", b"200", b"NOVALUES"])

    end, others = scanned(machine, "HSCAN", "h", cursor.decode(), "NOVALUES")

    assert b"0" == end
    assert [*map(str.encode, MANY)] == first + others


def test_memory_of_the_process_decides_nothing() -> None:
    """The element of a cursor is gone: a script begins anew, also where the process remembers the element."""
    machine = filled()
    cursor, first = machine.read(b"SSCAN", [b"s", b"0", b"COUNT", b"200"])
    outcome(machine, "SREM", "s", first[-1].decode())

    assert b"m000" == machine.read(b"EVAL_RO", [SCAN.encode(), b"1", b"s", b"SSCAN", b"0"])[1][0]
    assert 299 == len(scanned(machine, "SSCAN", "s", cursor.decode())[1])
    assert 100 == len(machine.read(b"SSCAN", [b"s", cursor, b"COUNT", b"200"])[1])


@pytest.mark.form(Form.FIELD_TIMES)
@pytest.mark.parametrize("is_cleaned", [False, True])
@pytest.mark.parametrize("batch", [1, 2, 9])
def test_due_fields_are_left_out(batch: int, is_cleaned: bool) -> None:
    """A field that is due by log time is not there, whether or not the cleaner has been there."""
    store = new_store()
    machine = open_machine(store)
    words = [RULES, ["HSET", "h", "a", "1", "b", "2"], ["HEXPIRE", "h", "5", "FIELDS", "1", "a"]]
    records = [record(number, *each) for number, each in enumerate(words)]
    for scan in (
        "return redis.call('HSCAN', 'h', 0)",
        "redis.call('SET', 'k', 1) return redis.call('HSCAN', 'h', '0')",
    ):
        records.append(record(len(records), "EVAL", scan, "0", at_ms=LATER_MS))
    outcomes: dict[int, Any] = {}
    for start in range(0, len(records), batch):
        outcomes |= machine.apply(records[start : start + batch], start, waiting=range(len(records))).outcomes
        machine.commit(FINGERPRINT)
        if is_cleaned:
            clean_all(machine, store)

    assert [[b"0", [b"b", b"2"]]] * 2 == [outcomes[3], outcomes[4]]


@pytest.mark.parametrize("name", ["HSCAN", "SSCAN", "ZSCAN"])
def test_older_rules_refuse(name: str) -> None:
    """Before rules 4 a script that is an event may not scan, so a replay of an older log gives the same error."""
    refused = scanned(filled(rules=False), name, name[0].lower(), "0")

    wanted = f"ERR {name} reads what is physically there: a script that is an event cannot call it, EVAL_RO can"
    assert wanted == refused.message.partition(" script: ")[0]
