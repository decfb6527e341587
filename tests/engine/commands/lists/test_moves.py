"""Moves between lists where replies do not show it: identity, time to live, and what is written."""

from __future__ import annotations

import pytest

from engine.apply.machine import Machine
from engine.layouts.layout import Kind
from engine.store.store import GRAVEYARD_CF
from tests.engine.harness import NOW_MS, family, new_store, open_machine, send
from tests.engine.stored import stored
from tests.layouts import home_of, layout_of


@pytest.mark.parametrize("move", ["RPOPLPUSH l l", "LMOVE l l LEFT RIGHT", "LMOVE l l LEFT LEFT"])
def test_a_list_that_is_turned_stays_the_same_list(move: str) -> None:
    """A list of one element moved onto itself is neither deleted nor made anew: it keeps time to live and version."""
    store = new_store()
    machine = open_machine(store)
    send(machine, "RPUSH l a", "PEXPIREAT l 4102444800000")
    (before,) = stored(store, Kind.METADATA).values()

    assert [b"a"] == send(machine, move)
    (after,) = stored(store, Kind.METADATA).values()
    old, new = layout_of().parse_metadata(before), layout_of().parse_metadata(after)
    assert (old.version, old.expire_ms, 1) == (new.version, new.expire_ms, new.size)
    assert {} == family(store, GRAVEYARD_CF)


def test_the_last_element_takes_its_list_away() -> None:
    """The source is deleted with its last element, and the destination comes into being with it."""
    machine = open_machine(new_store())

    assert [1, b"a", 0, [b"a"]] == send(machine, "RPUSH l a", "RPOPLPUSH l m", "EXISTS l", "LRANGE m 0 -1")


def test_a_destination_that_is_due_is_made_anew() -> None:
    """An element moved to an expired list stands alone in it."""
    machine = open_machine(new_store())
    send(machine, "RPUSH m old", f"PEXPIREAT m {NOW_MS + 500}", "RPUSH l a")

    assert [b"a", [b"a"], -1] == send(machine, "LMOVE l m LEFT LEFT", "LRANGE m 0 -1", "PTTL m", at_ms=NOW_MS + 500)


def test_a_wrong_count_of_keys_is_a_rejection_in_a_cluster() -> None:
    """LMPOP with an impossible `numkeys` is refused like any command, not a fault of the partition."""
    machine = Machine(new_store(), home_of("topic", 0, 2))

    (outcome,) = send(machine, "LMPOP 0 b LEFT")

    assert "ERR numkeys should be greater than 0" == outcome.message
