"""SRANDMEMBER, HRANDFIELD and ZRANDMEMBER: their bounds, and the same draws at every replay."""

from __future__ import annotations

from collections import Counter

import pytest

from engine.apply.machine import Machine
from engine.errors import CommandError
from engine.limits import DRAWS_MAX
from tests.engine.harness import HOME, new_store, open_machine, send

MAKERS = {"SRANDMEMBER": "SADD c {}", "HRANDFIELD": "HSET c {} v", "ZRANDMEMBER": "ZADD c 1 {}"}


@pytest.mark.parametrize("command", MAKERS)
@pytest.mark.parametrize("size", [5, 256, 2000])
def test_draws_are_elements(command: str, size: int) -> None:
    """Small or large: different ones with a positive count, as many as asked for with a negative one."""
    machine = Machine(new_store(), HOME)
    send(machine, *(MAKERS[command].format(number) for number in range(size)))
    elements = {b"%d" % number for number in range(size)}

    for count in (1, 5, 7, size // 2, size, size + 5, -1, -7):
        (drawn,) = send(machine, f"{command} c {count}")
        assert set(drawn) <= elements
        assert len(drawn) == (-count if count < 0 else min(count, size))
        assert count < 0 or len(set(drawn)) == len(drawn)


def test_few_of_many_are_different() -> None:
    """Where one element is drawn again and again, the next one takes its place."""
    machine = Machine(new_store(), HOME)
    send(machine, "SADD c b", *(f"SADD c a{number:05}" for number in range(5000)))

    for _ in range(20):
        (drawn,) = send(machine, "SRANDMEMBER c 15")
        assert len(set(drawn)) == 15


def test_draws_of_an_event_are_the_same_at_every_replay() -> None:
    """They depend on the place in the log alone, and differ from place to place."""
    lines = ["SADD c a b c d e f g h", *(["SRANDMEMBER c -20"] * 5)]

    first, second = (send(open_machine(new_store()), *lines) for _ in range(2))
    assert first == second
    assert len({tuple(drawn) for drawn in first[1:]}) == 5


def test_every_element_is_drawn_alike() -> None:
    """Ten thousand draws among ten: each of them about a thousand times."""
    machine = open_machine(new_store())
    _, drawn = send(machine, "SADD c 0 1 2 3 4 5 6 7 8 9", "SRANDMEMBER c -10000")

    assert [] == [count for count in Counter(drawn).values() if not 850 < count < 1150]


@pytest.mark.parametrize("command", MAKERS)
def test_no_reply_is_without_bounds(command: str) -> None:
    """More draws than a request has arguments are refused: a few bytes of an event must not fill the memory."""
    machine = open_machine(new_store())
    _, refused = send(machine, MAKERS[command].format("a"), f"{command} c -{DRAWS_MAX + 1}")

    assert isinstance(refused, CommandError)
    assert "ERR value is out of range" == refused.message
