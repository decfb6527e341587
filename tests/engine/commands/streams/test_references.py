"""KEEPREF, DELREF and ACKED: the cases of Redis' pages and of its own tests, by hand."""

from __future__ import annotations

import pytest

from engine.apply.machine import Machine
from engine.errors import CommandError
from engine.layouts.layout import Form
from engine.values.replies import NIL_ARRAY
from tests.engine.harness import new_store, open_machine, send

pytestmark = pytest.mark.form(Form.STREAMS)

NOTHING = [0, None, None, NIL_ARRAY]


@pytest.fixture
def machine() -> Machine:
    """Two entries, which two groups have got and not acknowledged."""
    machine = open_machine(new_store())
    send(
        machine,
        *("XADD s 1-0 f v", "XADD s 2-0 f v", "XGROUP|CREATE s one 0", "XGROUP|CREATE s two 0"),
        *("XREADGROUP GROUP one ann STREAMS s >", "XREADGROUP GROUP two bob STREAMS s >"),
    )
    return machine


def pending(machine: Machine) -> list[object]:
    """What is pending in both groups."""
    return [send(machine, f"XPENDING s {group}")[0] for group in ("one", "two")]


def test_xackdel_keeps_references_by_default(machine: Machine) -> None:
    """The entries are gone; the other group has them pending still, and may acknowledge what is not there."""
    assert [[1, 1], 0] == send(machine, "XACKDEL s one IDS 2 1-0 2-0", "XLEN s")
    assert [NOTHING, [2, b"1-0", b"2-0", [[b"bob", b"2"]]]] == pending(machine)
    assert [[1, 1]] == send(machine, "XACKDEL s two KEEPREF IDS 2 1-0 2-0")
    assert [NOTHING, NOTHING] == pending(machine)


def test_xackdel_deletes_all_references(machine: Machine) -> None:
    """With DELREF nothing is pending anywhere."""
    assert [[1, 1], 0] == send(machine, "XACKDEL s one DELREF IDS 2 1-0 2-0", "XLEN s")
    assert [NOTHING, NOTHING] == pending(machine)
    assert [[-1, -1]] == send(machine, "XACKDEL s two DELREF IDS 2 1-0 2-0")


def test_xackdel_leaves_what_is_needed(machine: Machine) -> None:
    """With ACKED an entry goes when the last group acknowledges it."""
    assert [[2, 2], 2] == send(machine, "XACKDEL s one ACKED IDS 2 1-0 2-0", "XLEN s")
    assert [NOTHING, [2, b"1-0", b"2-0", [[b"bob", b"2"]]]] == pending(machine)
    assert [[1, 1], 0] == send(machine, "XACKDEL s two ACKED IDS 2 1-0 2-0", "XLEN s")
    assert [NOTHING, NOTHING] == pending(machine)


def test_xdelex(machine: Machine) -> None:
    """Without a word as XDEL; DELREF takes references of what is gone already; each id has its own reply."""
    assert [[1], [2, -1]] == send(machine, "XDELEX s IDS 1 1-0", "XDELEX s ACKED IDS 2 2-0 3-0")
    assert [[-1, 1, -1]] == send(machine, "XDELEX s DELREF IDS 3 1-0 2-0 2-0")
    assert [NOTHING, NOTHING] == pending(machine)


def test_a_group_needs_what_it_has_not_got(machine: Machine) -> None:
    """With ACKED an entry stays that a group, perhaps a new one, has not got yet; without groups all may go."""
    send(machine, "XACK s one 1-0 2-0", "XACK s two 1-0 2-0", "XGROUP|CREATE s three 1-0")

    assert [[1, 2]] == send(machine, "XDELEX s ACKED IDS 2 1-0 2-0")
    assert [1, [1]] == send(machine, "XGROUP|DESTROY s three", "XDELEX s ACKED IDS 1 2-0")


def test_trimming_leaves_what_is_needed() -> None:
    """XADD and XTRIM with ACKED pass entries by that a group needs, and delete others behind them."""
    machine = open_machine(new_store())
    send(machine, *(f"XADD s {number}-0 f v" for number in range(1, 6)), "XGROUP|CREATE s g 0")

    assert [b"6-0", 6] == send(machine, "XADD s MAXLEN = 1 ACKED 6-0 f v", "XLEN s")
    send(machine, "XREADGROUP GROUP g c COUNT 1 STREAMS s >", "XACK s g 1-0")
    assert [b"7-0", 6] == send(machine, "XADD s MAXLEN = 1 ACKED 7-0 f v", "XLEN s")
    send(machine, "XREADGROUP GROUP g c STREAMS s >", "XACK s g 3-0 4-0")
    assert [1] == send(machine, "XTRIM s MINID ~ 4-0 ACKED")
    assert [b"2-0", b"4-0"] == [each[0] for each in send(machine, "XRANGE s - + COUNT 2")[0]]
    send(machine, "XACK s g 2-0 5-0 6-0 7-0")
    assert [b"8-0", 1] == send(machine, "XADD s MAXLEN 1 ACKED 8-0 f v", "XLEN s")


def test_trimming_deletes_references() -> None:
    """XADD with DELREF takes what it deletes out of what is pending."""
    machine = open_machine(new_store())
    send(machine, *(f"XADD s {number}-0 f v" for number in range(1, 6)), "XGROUP|CREATE s g 0")
    send(machine, "XREADGROUP GROUP g c COUNT 1 STREAMS s >")

    assert [b"6-0", 1, NOTHING] == send(machine, "XADD s DELREF MAXLEN = 1 6-0 f v", "XLEN s", "XPENDING s g")


def test_words_without_trimming() -> None:
    """XADD takes one of the three words alone, too, and no two; XTRIM wants to know how to trim."""
    machine = open_machine(new_store())

    assert [b"1-0"] == send(machine, "XADD s ACKED 1-0 f v")
    assert ["ERR Invalid stream ID specified as stream command argument", "ERR syntax error"] == refusals(
        machine, "XADD s ACKED DELREF 1-0 f v", "XTRIM s ACKED s s"
    )


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("IDS abc 1-1", "ERR Number of IDs must be a positive integer"),
        ("IDS 0 1-1", "ERR Number of IDs must be a positive integer"),
        ("IDS -5 1-1", "ERR Number of IDs must be a positive integer"),
        ("IDS 3 1-1 2-2", "ERR The `numids` parameter must match the number of arguments"),
        ("IDS 1 1-1 2-2", "ERR syntax error"),
        ("KEEPREF DELREF IDS 1 1-1", "ERR syntax error"),
        ("DELREF ACKED IDS 1 1-1", "ERR syntax error"),
        ("ACKED ACKED IDS 1 1-1", "ERR syntax error"),
        ("KEEPREF KEEPREF KEEPREF", "ERR syntax error"),
        ("IDS 1 1-1 IDS 1 1-1", "ERR syntax error"),
        ("IDS 1 x", "ERR Invalid stream ID specified as stream command argument"),
    ],
)
def test_refusals(words: str, text: str) -> None:
    """Both commands refuse the same words with the same texts, whether there is a stream or not."""
    machine = open_machine(new_store())

    assert [text, text] == refusals(machine, f"XDELEX s {words}", f"XACKDEL s g {words}")


def test_what_is_not_there() -> None:
    """Without the key, or without the group, -1 for each id; the words may come in any order; a wrong type is one."""
    machine = open_machine(new_store())
    send(machine, "SET text v", "XADD s 1-0 f v")

    assert [[-1, -1], [-1]] == send(machine, "XACKDEL none g IDS 2 1-0 2-0", "XDELEX none IDS 1 1-0")
    assert [[-1], [1]] == send(machine, "XACKDEL s g IDS 1 1-0", "XDELEX s IDS 1 1-0 DELREF")
    wrong = "WRONGTYPE Operation against a key holding the wrong kind of value"
    assert [wrong, wrong] == refusals(machine, "XDELEX text IDS 1 1-0", "XACKDEL text g IDS 1 1-0")


@pytest.mark.parametrize("line", ["XDELEX", "XDELEX s", "XDELEX s IDS 1", "XACKDEL s g IDS 1"])
def test_too_few_words(line: str) -> None:
    """They are a dead letter, as of any command."""
    machine = open_machine(new_store())
    (outcome,) = send(machine, line)

    assert f"wrong number of arguments for '{line.split(maxsplit=1)[0].lower()}' command" in str(outcome)


def refusals(machine: Machine, *lines: str) -> list[str]:
    """The text of each outcome, which is an error."""
    outcomes = send(machine, *lines)
    assert all(isinstance(outcome, CommandError) for outcome in outcomes)
    return [outcome.message for outcome in outcomes]
