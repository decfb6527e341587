"""DUMP and RESTORE as commands: options, their order, times to live, and what a refusal leaves as it was."""

from __future__ import annotations

import re
from typing import Any, Final

import pytest

from engine.apply.machine import Machine
from engine.errors import DUMP_UNSUPPORTED, EXEC_TOO_LARGE, RESTORE_TOO_LARGE, STRING_TOO_LONG, CommandError
from engine.layouts.layout import Form
from engine.model import HASH, LIST, SET, STRING, ZSET
from engine.store.store import GRAVEYARD_CF
from engine.values.rdb.content import Content
from engine.values.rdb.encode import encode, pack_length, seal
from slotlog.shared.limits import ARGUMENTS_MAX
from tests.consistency import problems
from tests.differential.contents import of_engine
from tests.engine.harness import FINGERPRINT, HOME, NOW_MS, family, new_store, open_machine, send
from tests.layouts import layout_of
from tests.real.oracle import Connection, ErrorReply, SimpleString

FAR_MS: Final = 4_102_444_800_000
PAYLOAD: Final = encode(Content(STRING, [b"value"]))
CONTENTS: Final = {
    "string": Content(STRING, [b"value"]),
    "large string": Content(STRING, [bytes(range(256)) * 4000]),
    "list": Content(LIST, [b"c", b"a", b"c", b""]),
    "set": Content(SET, [b"a", b"b", b"c"]),
    "hash": Content(HASH, [b"f", b"v", b"g", b"w"]),
    "hash with times": Content(HASH, [b"f", b"v", b"g", b"w"], expires_ms=[FAR_MS, 0]),
    "hash with times alone": Content(HASH, [b"f", b"v", b"g", b"w"], expires_ms=[FAR_MS, FAR_MS + 1]),
    "sorted set": Content(ZSET, [b"a", b"b", b"c"], [1.0, 1.0, 2.5]),
}
"""In the order in which DUMP gives them."""


def run(machine: Machine, name: bytes, *args: bytes, at_ms: int = NOW_MS) -> Any:
    """The outcome of a command that is the next record, an error as its text."""
    offset = machine.next_offset
    applied = machine.apply([(offset, at_ms, name, list(args), 0, None, None)], offset, waiting={offset})
    machine.commit(FINGERPRINT)
    outcome = applied.outcomes[offset]
    return outcome.message if isinstance(outcome, CommandError) else outcome


@pytest.mark.parametrize("replaced", ["", "SET k old", "RPUSH k old", "HSET k old 1", "ZADD k 1 old"])
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=[pytest.mark.form(Form.FIELD_TIMES)] if content.expires_ms else [])
        for kind, content in CONTENTS.items()
    ],
)
def test_what_was_restored_is_dumped_again(kind: str, replaced: str) -> None:
    """The same bytes come out, whatever stood in its place, with the time to live that was given; all records agree."""
    store = new_store()
    machine = open_machine(store)
    send(machine, *filter(None, [replaced]))
    payload = encode(CONTENTS[kind])

    assert b"OK" == run(machine, b"RESTORE", b"k", b"5000", payload, b"REPLACE")
    assert payload == machine.read(b"DUMP", [b"k"])
    assert NOW_MS + 5000 == machine.read(b"PEXPIRETIME", [b"k"])
    assert [] == problems(store)
    assert int(bool(replaced) and not replaced.startswith("SET")) == len(family(store, GRAVEYARD_CF))


REQUESTS: Final = (
    (b"k", b"0", PAYLOAD),
    (b"k", b"-1", PAYLOAD),
    (b"k", b"x", b"y"),
    (b"k", b"0", PAYLOAD, b"NOSUCH"),
    (b"k", b"x", PAYLOAD, b"REPLACE"),
    (b"k", b"-1", b"y", b"REPLACE"),
    (b"k", b"0", b"y", b"REPLACE"),
    (b"k", b"0", seal([b"\x02\x00"], 9), b"replace\x00d"),
    (b"a", b"x", PAYLOAD),
    (b"a", b"-1", PAYLOAD),
    (b"a", b" 1", PAYLOAD),
    (b"a", b"9223372036854775808", PAYLOAD),
    (b"a", b"0", PAYLOAD, b"IDLETIME"),
    (b"a", b"0", PAYLOAD, b"IDLETIME", b"-1"),
    (b"a", b"0", PAYLOAD, b"IDLETIME", b"x"),
    (b"a", b"0", PAYLOAD, b"FREQ"),
    (b"a", b"0", PAYLOAD, b"FREQ", b"256"),
    (b"a", b"0", PAYLOAD, b"FREQ", b"-1"),
    (b"a", b"0", PAYLOAD, b"FREQ", b"x"),
    (b"a", b"0", PAYLOAD, b"FREQ", b"1", b"IDLETIME", b"1"),
    (b"a", b"0", PAYLOAD, b"IDLETIME", b"1", b"FREQ", b"1"),
    (b"a", b"0", PAYLOAD, b"IDLETIME", b"-1", b"NOSUCH"),
    (b"a", b"0", PAYLOAD, b"FREQ", b"1", b"freq", b"2", b"ABSTTL", b"absttl"),
    (b"b", b"0", PAYLOAD, b"IDLETIME", b"0", b"IDLETIME", b"0"),
    (b"c", b"%d" % FAR_MS, PAYLOAD, b"ABSTTL"),
    (b"d", b"1", PAYLOAD, b"ABSTTL"),
    (b"k", b"1", PAYLOAD, b"ABSTTL", b"REPLACE"),
    (b"e", b"9223372036854775807", PAYLOAD),
    (b"f", b"9223372036854775807", PAYLOAD, b"ABSTTL"),
)


def test_options_are_checked_in_redis_order(oracle: Connection) -> None:
    """Each request has the oracle's reply, and leaves the same keys behind with the same times."""
    machine = open_machine(new_store())
    send(machine, "SET k old")
    oracle.call("SET", "k", "old")
    for request in REQUESTS:
        expected = oracle.call("RESTORE", *request)
        assert isinstance(expected, ErrorReply | SimpleString)
        reply = run(machine, b"RESTORE", *request)
        assert expected.text == (reply.encode() if isinstance(reply, str) else reply), request
        assert oracle.call("PEXPIRETIME", request[0]) == machine.read(b"PEXPIRETIME", [request[0]]), request


def test_a_time_that_has_come_takes_the_old_key_away() -> None:
    """By the log's time: with REPLACE nothing is left, and the payload is looked at all the same."""
    store = new_store()
    machine = open_machine(store)
    send(machine, "RPUSH k a")

    due = b"%d" % NOW_MS
    assert "ERR Bad data format" == run(machine, b"RESTORE", b"k", due, seal([b"\x63"], 9), b"ABSTTL", b"REPLACE")
    assert b"OK" == run(machine, b"RESTORE", b"k", due, PAYLOAD, b"ABSTTL", b"REPLACE")
    assert {} == of_engine(store, layout_of(), NOW_MS).keys
    assert [] == problems(store)


def test_fields_that_are_due_are_left_out() -> None:
    """And the key with them when there are no others."""
    machine = open_machine(new_store())
    some = Content(HASH, [b"f", b"v", b"g", b"w"], expires_ms=[NOW_MS, 0])
    none = Content(HASH, [b"f", b"v", b"g", b"w"], expires_ms=[NOW_MS, NOW_MS - 1])

    assert b"OK" == run(machine, b"RESTORE", b"h", b"0", encode(some))
    assert encode(Content(HASH, [b"g", b"w"])) == machine.read(b"DUMP", [b"h"])
    assert b"OK" == run(machine, b"RESTORE", b"h", b"0", encode(none), b"REPLACE")
    assert 0 == machine.read(b"EXISTS", [b"h"])


def test_an_expired_key_is_neither_dumped_nor_busy() -> None:
    """It is absent."""
    machine = open_machine(new_store())
    send(machine, f"SET k old PXAT {NOW_MS + 5}", f"SET other v PXAT {NOW_MS + 5}")

    assert b"OK" == run(machine, b"RESTORE", b"k", b"0", PAYLOAD, at_ms=NOW_MS + 5)
    assert machine.read(b"DUMP", [b"other"]) is None


@pytest.mark.parametrize("kind", [6, 7])
def test_modules_are_refused_by_name(kind: int) -> None:
    """The error says what it is, and a key that was to be replaced stays."""
    machine = open_machine(new_store())
    send(machine, "SET k old")

    assert DUMP_UNSUPPORTED == run(machine, b"RESTORE", b"k", b"0", seal([bytes((kind,)), b"\x00"], 11), b"REPLACE")
    assert b"old" == machine.read(b"GET", [b"k"])


def test_more_than_a_command_may_bring_is_refused() -> None:
    """However few bytes name it."""
    count = ARGUMENTS_MAX + 1
    payload = seal([b"\x01", pack_length(count), b"\x00" * count], 9)

    assert RESTORE_TOO_LARGE == run(open_machine(new_store()), b"RESTORE", b"k", b"0", payload)


def test_a_payload_that_no_reply_can_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """DUMP ends at the longest string; here that is one of 20 bytes."""
    machine = open_machine(new_store())
    send(machine, "SET short abcdefgh", "SET long abcdefghi")
    monkeypatch.setattr("engine.values.rdb.encode.STRING_BYTES_MAX", 20)

    assert 20 == len(machine.read(b"DUMP", [b"short"]))
    with pytest.raises(CommandError, match=re.escape(STRING_TOO_LONG)):
        machine.read(b"DUMP", [b"long"])


def test_a_transaction_of_many_is_bounded() -> None:
    """Elements count with what they take in a batch: a payload of a million empty ones is all that one may bring."""
    payload = seal([b"\x01", pack_length(ARGUMENTS_MAX), b"\x00" * ARGUMENTS_MAX], 9)
    machine = Machine(new_store(), HOME)
    restores = [[b"RESTORE", b"k%d" % number, b"0", payload] for number in range(3)]
    replies = send(machine, restores)[0]

    assert [b"OK", EXEC_TOO_LARGE] == [getattr(reply, "message", reply) for reply in (replies[0], replies[-1])]
