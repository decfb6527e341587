"""Groups with many pending entries: they go by range, whatever follows in the same batch."""

from __future__ import annotations

from typing import Any

import pytest

from engine.apply.machine import Machine
from engine.layouts.layout import Form
from engine.types.stream.streams import POINTS_MAX
from engine.values.replies import NIL_ARRAY
from tests.consistency import problems
from tests.engine.harness import FINGERPRINT, WatchedStore, apply, event, open_machine, send

pytestmark = pytest.mark.form(Form.STREAMS)

ENTRIES = 3 * POINTS_MAX
FEW = 40
"""More than the records that a command about a group writes beside those that it deletes."""


@pytest.fixture
def store() -> WatchedStore:
    """One that counts what is written."""
    return WatchedStore()


@pytest.fixture
def machine(store: WatchedStore) -> Machine:
    """A stream whose entries are all pending for `ann` in the group `crew`, but for three that `bob` has got."""
    machine = open_machine(store)
    send(
        machine,
        [[b"XADD", b"s", b"%d-1" % number, b"f", b"v"] for number in range(1, ENTRIES + 1)],
        *("XGROUP|CREATE s crew 0", "XGROUP|CREATE s others 0", "XREADGROUP GROUP others cy COUNT 5 STREAMS s >"),
        "XREADGROUP GROUP crew ann STREAMS s >",
        "XCLAIM s crew bob 0 7-1 8-1 900-1",
    )
    return machine


def written(store: WatchedStore) -> int:
    """How many records the last batch has written or deleted one by one."""
    return sum(map(len, store.batches[-1].values.values()))


def together(machine: Machine, *lines: str) -> list[Any]:
    """The outcomes of commands in one batch."""
    start = machine.next_offset
    applied = apply(machine, *(event(start + number, line) for number, line in enumerate(lines)))
    machine.commit(FINGERPRINT)
    return [applied.outcomes[start + number] for number in range(len(lines))]


def test_destroying_a_large_group_writes_little(machine: Machine, store: WatchedStore) -> None:
    """XGROUP DESTROY of thousands of pending entries deletes ranges; the other group is as it was."""
    assert [1] == send(machine, "XGROUP|DESTROY s crew")
    assert written(store) < FEW
    assert [] == problems(store)
    assert [[5, b"1-1", b"5-1", [[b"cy", b"5"]]]] == send(machine, "XPENDING s others")


def test_a_group_of_the_same_name_begins_anew(machine: Machine, store: WatchedStore) -> None:
    """In the same batch, too: nothing that the first one had is pending in it or known of its consumers."""
    outcomes = together(
        machine,
        *("XGROUP|DESTROY s crew", "XGROUP|CREATE s crew 0", "XPENDING s crew", "XINFO|CONSUMERS s crew"),
        *("XREADGROUP GROUP crew ann COUNT 1 STREAMS s >", "XPENDING s crew - + 9", "XPENDING s crew + - 9"),
        *("XACK s crew 2-1", "XGROUP|DESTROY s crew", "XGROUP|CREATE s crew $", "XPENDING s crew"),
    )

    assert [1, "OK", [0, None, None, NIL_ARRAY], []] == [*outcomes[:1], outcomes[1].decode(), *outcomes[2:4]]
    assert [[b"1-1", b"ann", 0, 1]] == outcomes[5]
    assert [0, 1, [0, None, None, NIL_ARRAY]] == [outcomes[7], outcomes[8], outcomes[10]]
    assert [] == problems(store)


def test_deleting_a_consumer_with_nearly_all_writes_little(machine: Machine, store: WatchedStore) -> None:
    """XGROUP DELCONSUMER of thousands of pending entries leaves the three of another consumer as they were."""
    before = send(machine, "XPENDING s crew - + 9 bob")

    assert [ENTRIES - 3] == send(machine, "XGROUP|DELCONSUMER s crew ann")
    assert written(store) < FEW
    assert before == send(machine, "XPENDING s crew - + 9")
    assert [] == problems(store)


def test_deleting_one_of_two_consumers_with_many(machine: Machine, store: WatchedStore) -> None:
    """Where another consumer has many as well, each of its own goes by itself; what is left is the other's."""
    half = " ".join(f"{number}-1" for number in range(1, ENTRIES // 2))
    send(machine, f"XCLAIM s crew dan 0 {half} JUSTID")

    assert [ENTRIES // 2 + 1] == send(machine, "XGROUP|DELCONSUMER s crew ann")
    assert [[b"dan", b"%d" % (ENTRIES // 2 - 1)]] == send(machine, "XPENDING s crew")[0][3]
    assert [] == problems(store)
