"""A reply that would be larger than the bound is an error, and what would have changed something has not."""

from __future__ import annotations

import pytest

from engine.apply import executor
from engine.apply.machine import Machine
from engine.errors import REPLY_TOO_LARGE, CommandError
from engine.limits import REPLY_BYTES_MAX
from engine.values import replies
from tests.engine.harness import new_store, open_machine, send

BOUND = 200 * 128
"""Bytes: 200 elements of 64 bytes, each with 64 beside."""

MAKE = [
    "SADD s " + " ".join(f"{n:064}" for n in range(200)),
    "RPUSH l " + " ".join(f"{n:064}" for n in range(200)),
    "HSET h " + " ".join(f"{n:032} {n:032}" for n in range(110)),
    "ZADD z " + " ".join(f"{n} {n:056}" for n in range(200)),
    *(f"SET {n:064} v" for n in range(197)),
]
READS = [
    "SMEMBERS s",
    "SUNION s s",
    "SINTER s s",
    "SDIFF s none",
    "SORT_RO s ALPHA",
    "LRANGE l 0 -1",
    "SORT_RO l",
    "ZRANGE z 0 -1",
    "ZRANGE z 0 -1 WITHSCORES",
    "ZREVRANGEBYSCORE z inf -inf",
    "KEYS *",
]
"""Replies of at least 200 elements that are at the bound, or just below it."""

PAIRS = {"HGETALL h": 110 * 192, "HKEYS h": 110 * 96, "HVALS h": 110 * 96, "ZUNION 1 z WITHSCORES": 200 * 184}
"""Replies, and what they count."""


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine whose replies are bounded so; the collections are made."""
    machine = open_machine(new_store())
    send(machine, *MAKE)
    for module in (replies, executor):
        monkeypatch.setattr(module, "REPLY_BYTES_MAX", BOUND)
    return machine


def test_the_replies_of_a_transaction_are_bounded_together(machine: Machine) -> None:
    """Once they are too much, a transaction's further commands fail: what a write replies counts for writes as well."""
    send(machine, f"SET big {'x' * (BOUND - 512)}")
    read, write = [b"GET", b"big"], [b"SET", b"big", b"y", b"GET"]

    (outcomes,) = send(machine, [read, [b"INCR", b"n"], read, read, [b"INCR", b"n"], write, [b"INCR", b"n"]])
    failed = [isinstance(outcome, CommandError) for outcome in outcomes]
    assert [False, False, False, True, False, False, False] == failed
    (outcomes,) = send(machine, [[b"SET", b"a", b"x" * BOUND], [b"SET", b"a", b"y", b"GET"], [b"INCR", b"n"], read])
    assert [REPLY_TOO_LARGE] * 2 == [getattr(outcome, "message", None) for outcome in outcomes[2:]]


@pytest.mark.parametrize("line", READS)
def test_a_reply_beyond_the_bound_is_an_error(machine: Machine, line: str) -> None:
    """What fits is given whole; with a few elements more the command fails and says so."""
    assert len(read(machine, line)) >= 200

    send(machine, *(f"{make} {'x' * 64}" for make in ("SADD s", "RPUSH l", "ZADD z 1")), f"SET {'x' * 64} v")
    with pytest.raises(CommandError, match="^" + REPLY_TOO_LARGE):
        read(machine, line)


def read(machine: Machine, line: str) -> list[object]:
    """The reply of a reading command."""
    name, *args = line.encode().split()
    reply: list[object] = machine.read(name, args)
    return reply


@pytest.mark.parametrize("line", PAIRS)
def test_both_sides_of_a_pair_count(machine: Machine, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fields and values, members and scores are elements of their own."""
    monkeypatch.setattr(replies, "REPLY_BYTES_MAX", PAIRS[line])
    assert len(read(machine, line)) in {110, 200}

    monkeypatch.setattr(replies, "REPLY_BYTES_MAX", PAIRS[line] - 1)
    with pytest.raises(CommandError, match="^" + REPLY_TOO_LARGE):
        read(machine, line)


@pytest.mark.parametrize("line", ["LPOP l 300", "RPOP l 300", "ZPOPMIN z 300", "ZPOPMAX z 300"])
def test_nothing_is_popped_that_cannot_be_replied(machine: Machine, line: str) -> None:
    """A pop of more than one reply may hold is a rejection like any other: all of it stays."""
    send(machine, "RPUSH l more", "ZADD z 1 " + "x" * 80)
    before = machine.read(b"LLEN", [b"l"]), machine.read(b"ZCARD", [b"z"])
    (refused,) = send(machine, line)

    assert REPLY_TOO_LARGE == refused.message
    assert before == (machine.read(b"LLEN", [b"l"]), machine.read(b"ZCARD", [b"z"]))


@pytest.mark.parametrize("line", ["SUNIONSTORE d s", "COPY l d", "ZUNIONSTORE d 1 z", "RENAME h d"])
def test_what_is_stored_is_no_reply(machine: Machine, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound does not concern what a command makes of collections."""
    monkeypatch.setattr(replies, "REPLY_BYTES_MAX", 100)
    send(machine, line)

    assert 1 == machine.read(b"EXISTS", [b"d"])


def test_the_bound_is_that_of_a_server() -> None:
    """A reply that the engine gives does not by itself exceed what a server lets wait for one client."""
    from resp.clients.window import HELD_BYTES_MAX

    assert REPLY_BYTES_MAX <= HELD_BYTES_MAX
    assert replies.REPLY_ELEMENT_BYTES >= len(b"$%d\r\n\r\n" % REPLY_BYTES_MAX) + len(b",-1.7976931348623157e+308\r\n")
