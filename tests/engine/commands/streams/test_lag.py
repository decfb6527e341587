"""The lag of a group where entries were trimmed or deleted, as in Redis 7.4 and Valkey 9.1.4.

The oracle is Valkey 9.1.2, which counts entries that were trimmed before the group has read them.
"""

from __future__ import annotations

import pytest

from engine.apply.machine import Machine
from engine.layouts.layout import Form
from tests.engine.harness import new_store, open_machine, send

pytestmark = pytest.mark.form(Form.STREAMS)


@pytest.fixture
def machine() -> Machine:
    """Ten entries, of which a group has read six, and another none."""
    machine = open_machine(new_store())
    send(machine, *(f"XADD s {number}-0 f v" for number in range(1, 11)))
    send(machine, "XGROUP|CREATE s six 0", "XGROUP|CREATE s none 0", "XREADGROUP GROUP six ann COUNT 6 STREAMS s >")
    return machine


def lags(machine: Machine) -> dict[bytes, int | None]:
    """By group."""
    groups = [dict(group) for group in machine.read(b"XINFO|GROUPS", [b"s"])]
    return {group[b"name"]: group[b"lag"] for group in groups}


@pytest.mark.parametrize(
    ("command", "six", "none"),
    [
        ("XLEN s", 4, 10),
        ("XTRIM s MAXLEN 6", 4, 6),
        ("XTRIM s MAXLEN 3", 3, 3),
        ("XTRIM s MAXLEN 0", 0, 0),
        ("XDEL s 1-0", 4, 9),
        ("XDEL s 5-0", 4, None),
        ("XDEL s 8-0", None, None),
        ("XDEL s 1-0 2-0 3-0 4-0 5-0 6-0 7-0", 3, 3),
        ("XDEL s 1-0 2-0 3-0 4-0 5-0 6-0 7-0 8-0 9-0 10-0", 0, 0),
    ],
)
def test_lag_counts_what_is_there(machine: Machine, command: str, six: int | None, none: int | None) -> None:
    """What was trimmed before a group has read it is nothing that it could read; a hole behind it leaves it unknown."""
    send(machine, command)

    assert {b"six": six, b"none": none} == lags(machine)


def test_a_group_reads_on_behind_a_trim(machine: Machine) -> None:
    """Once it has read the first entry that is left, its own count holds again."""
    send(machine, "XTRIM s MAXLEN 3", "XREADGROUP GROUP six ann COUNT 1 STREAMS s >", "XADD s 11-0 f v")

    assert {b"six": 3, b"none": 4} == lags(machine)


def test_what_a_group_was_said_to_have_read_is_no_lag() -> None:
    """ENTRIESREAD may say more than there ever was: entries that a group can still read count, and nothing else."""
    machine = open_machine(new_store())
    send(machine, "XGROUP|CREATE s none 3-0 MKSTREAM ENTRIESREAD 1", "XADD s MAXLEN 10 4-5 f v")
    assert {b"none": 1} == lags(machine)

    send(machine, "XGROUP|CREATE s six $ ENTRIESREAD 2", "XTRIM s MAXLEN 0")
    assert {b"none": 0, b"six": 0} == lags(machine)
