"""A server's reads use a wall clock ahead of the log's for times left, idle times and lists of keys."""

from __future__ import annotations

from typing import Any, Final

import pytest

from engine.apply.machine import Machine
from engine.commands.registry import SPECS
from engine.errors import CommandError, DueError
from engine.layouts.layout import Form
from tests.engine.harness import NOW_MS, new_store, open_machine, send

IDLE_MS: Final = 6_000
KEYS: Final = [b"dying", b"h", b"kept"]


def filled() -> Machine:
    """A partition with keys of which one dies in 5 s, and to which nobody has written since."""
    machine = open_machine(new_store())
    send(machine, "SET kept 1 EX 100", "SET dying 1 EX 5", "HSET h f 1 g 1", "HEXPIRE h 100 FIELDS 1 f")
    return machine


def evaluated(machine: Machine, command: str, wall_ms: int) -> Any:
    """The reply of a read."""
    name, *args = command.encode().split()
    return machine.evaluate(SPECS[name], args, 0, wall_ms)


def test_idle_times_go_on() -> None:
    """How long an entry is pending, and a consumer idle, grows while nothing is written."""
    machine = open_machine(new_store())
    send(machine, "XADD s 1-1 f v", "XGROUP|CREATE s g 0", "XREADGROUP GROUP g c STREAMS s >")

    for ahead_ms, idle_ms in ((-IDLE_MS, 0), (0, 0), (IDLE_MS, IDLE_MS)):
        wall_ms = NOW_MS + ahead_ms
        assert [[b"1-1", b"c", idle_ms, 1]] == evaluated(machine, "XPENDING s g - + 9", wall_ms)
        assert [[b"1-1", b"c", idle_ms, 1]] * (idle_ms > 0) == evaluated(machine, "XPENDING s g IDLE 1 - + 9", wall_ms)
        (consumer,) = evaluated(machine, "XINFO|CONSUMERS s g", wall_ms)
        assert [(b"idle", idle_ms), (b"inactive", idle_ms)] == consumer[2:]


OF_FIELD_TIMES = pytest.mark.form(Form.FIELD_TIMES)


@pytest.mark.parametrize(
    ("command", "by_log", "by_wall"),
    [
        ("TTL kept", 100, 94),
        ("PTTL kept", 100_000, 94_000),
        pytest.param("HTTL h FIELDS 2 f g", [100, -1], [94, -1], marks=OF_FIELD_TIMES),
        pytest.param("HPTTL h FIELDS 1 f", [100_000], [94_000], marks=OF_FIELD_TIMES),
        ("EXPIRETIME kept", NOW_MS // 1000 + 100, NOW_MS // 1000 + 100),
        pytest.param("HPEXPIRETIME h FIELDS 1 f", [NOW_MS + 100_000], [NOW_MS + 100_000], marks=OF_FIELD_TIMES),
        ("KEYS *", KEYS, KEYS[1:]),
        ("SCAN 0", [b"0", KEYS], [b"0", KEYS[1:]]),
        ("DBSIZE", 3, 3),
    ],
)
def test_the_clock_that_is_ahead_counts(command: str, by_log: Any, by_wall: Any) -> None:
    """Time that is left and keys that are listed follow the wall clock when it is ahead, never when it is behind."""
    machine = filled()
    got = [evaluated(machine, command, NOW_MS + ahead_ms) for ahead_ms in (0, -IDLE_MS, IDLE_MS)]

    def in_order(reply: Any) -> Any:
        return [reply[0], sorted(reply[1])] if command[:4] == "SCAN" else sorted(reply) if "KEYS" in command else reply

    assert [by_log, by_log, by_wall] == [in_order(reply) for reply in got]


def test_a_random_key_is_not_due() -> None:
    """RANDOMKEY draws none that is due by the wall clock, and nil when all are."""
    machine = open_machine(new_store())
    send(machine, "SET kept 1 EX 100", *[f"SET dying{number} 1 EX 5" for number in range(50)])

    assert {b"kept"} == {evaluated(machine, "RANDOMKEY", NOW_MS + IDLE_MS) for _ in range(100)}
    assert evaluated(machine, "RANDOMKEY", NOW_MS + 20 * IDLE_MS) is None


@pytest.mark.parametrize("command", ["TTL dying", "PTTL dying", "GET dying", "EXISTS kept dying"])
def test_a_due_key_asks_for_a_tick(command: str) -> None:
    """Whether a key is there at all is for the log's clock to say, of its remaining time too."""
    with pytest.raises(DueError):
        evaluated(filled(), command, NOW_MS + IDLE_MS)


@pytest.mark.parametrize("command", ["LRANGE dying 0 -1", "SINTER kept dying", "HGET h2 f"])
def test_an_error_that_a_due_key_may_cause_asks_for_a_tick(command: str) -> None:
    """A key of another type that is due is none: WRONGTYPE is no answer before the log's clock has said so."""
    machine = filled()
    send(machine, "SET h2 1 PX 1")

    with pytest.raises(DueError):
        evaluated(machine, command, NOW_MS + IDLE_MS)


def test_an_error_of_a_key_that_lives_stays() -> None:
    """WRONGTYPE of a key that is not due is the reply, however far the wall clock is ahead."""
    with pytest.raises(CommandError, match="WRONGTYPE"):
        evaluated(filled(), "LRANGE kept 0 -1", NOW_MS + IDLE_MS)


@pytest.mark.parametrize("command", ["HTTL h FIELDS 1 g", "HGETALL h", "HLEN h", "HRANDFIELD h", "HMGET h g"])
@pytest.mark.form(Form.FIELD_TIMES)
def test_a_due_field_asks_for_a_tick(command: str) -> None:
    """Whatever is read of its hash."""
    with pytest.raises(DueError):
        evaluated(filled(), command, NOW_MS + 20 * IDLE_MS)


@pytest.mark.form(Form.FIELD_TIMES)
def test_an_event_knows_no_wall_clock() -> None:
    """After reads by the wall clock, what an event says of remaining time is by the record's."""
    machine = filled()
    evaluated(machine, "TTL kept", NOW_MS + IDLE_MS)
    evaluated(machine, "KEYS *", NOW_MS + IDLE_MS)
    steps = [[b"SET", b"a", b"1"], [b"TTL", b"kept"], [b"PTTL", b"dying"], [b"HTTL", b"h", b"FIELDS", b"1", b"f"]]

    assert [100, 5_000, [100]] == send(machine, steps)[0][1:]
    assert 5_000 == machine.read(b"PTTL", [b"dying"])
