"""The events of one key: exactly what it is, in as many as it takes, sent once or twice."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import pytest

from engine.apply.machine import Machine
from engine.layouts.layout import Form
from engine.model import HASH, LIST, SET, STRING, ZSET
from engine.proof.digest import digest, digest_of_items
from engine.proof.walk import live_keys
from engine.store.store import Store
from engine.values.rdb.content import Content
from ops.importing import key_events
from ops.importing.key_events import contents_of, events_of, too_large
from ops.importing.source import Command
from slotlog.events import decode, encode
from slotlog.producer import prepare
from slotlog.shared.limits import RECORD_BYTES_MAX
from tests.engine.harness import new_store, open_machine, send
from tests.layouts import layout_of

NOW_MS: Final = 1_900_000_000_000
FAR_MS: Final = 4_102_444_800_000
WORDS: Final = [b"word %d" % number for number in range(40)]

VALUES: Final[dict[str, tuple[Content, Any]]] = {
    "string": (Content(STRING, [b"0123456789" * 10]), b"0123456789" * 10),
    "empty string": (Content(STRING, [b""]), b""),
    "list": (Content(LIST, WORDS), WORDS),
    "set": (Content(SET, WORDS), WORDS),
    "hash": (Content(HASH, WORDS), dict(zip(WORDS[::2], WORDS[1::2], strict=True))),
    "zset": (
        Content(ZSET, WORDS[:4], [1.5, -0.0, float("inf"), 1e-300]),
        dict(zip(WORDS, (1.5, -0.0, float("inf"), 1e-300), strict=False)),
    ),
}


def applied(machine: Machine, events: Iterable[Command], at_ms: int = NOW_MS) -> int:
    """Apply each event, by way of its bytes. Returns how many there were."""
    count = 0
    for name, arguments in events:
        count += 1
        offset = machine.next_offset
        record = decode(offset, at_ms, encode(name, arguments))
        outcome = machine.apply([record], offset, waiting={offset})
        assert not outcome.dead_letters
        machine.commit(b"the log's mark")
    return count


def state() -> tuple[Store, Machine]:
    """An empty one whose clock is at NOW_MS."""
    store = new_store()
    machine = open_machine(store)
    send(machine, "DEL none", at_ms=NOW_MS)
    return store, machine


@pytest.mark.parametrize("expire_ms", [0, FAR_MS])
@pytest.mark.parametrize("bytes_max", [40, 1 << 20], ids=["pieces", "whole"])
@pytest.mark.parametrize("name", VALUES)
def test_a_key_is_what_it_was(name: str, bytes_max: int, expire_ms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every type, in one event and in many, over a key of another type; and the same when all is sent again."""
    monkeypatch.setattr(key_events, "EVENT_BYTES", bytes_max)
    monkeypatch.setattr(key_events, "_STRING_BYTES", bytes_max)
    content, value = VALUES[name]
    store, machine = state()
    send(machine, "RPUSH k another" if content.type == HASH else "HSET k another thing", at_ms=NOW_MS)
    events = applied(machine, events_of(b"k", expire_ms, iter([content])))
    expected = digest_of_items([(0, b"k", content.type, expire_ms, value)])

    assert expected == digest(store, layout_of(), machine.clock_ms)
    assert (1 < events) == (bytes_max == 40 and name != "empty string")
    assert events == applied(machine, events_of(b"k", expire_ms, iter([content])))
    assert expected == digest(store, layout_of(), machine.clock_ms)


@pytest.mark.parametrize("name", [name for name in VALUES if name != "empty string"])
def test_a_key_that_dies_between_its_events_stays_dead(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of its events makes none that lives for ever."""
    monkeypatch.setattr(key_events, "EVENT_BYTES", 40)
    monkeypatch.setattr(key_events, "_STRING_BYTES", 40)
    _, machine = state()
    first, *rest = events_of(b"k", NOW_MS + 5, iter([VALUES[name][0]]))
    applied(machine, [first])
    assert 1 == machine.read(b"EXISTS", [b"k"])
    applied(machine, rest, NOW_MS + 6)

    assert rest
    assert 0 == machine.read(b"EXISTS", [b"k"])


@pytest.mark.form(Form.FIELD_TIMES)
def test_fields_die_at_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each field at its own, in however many events; one whose time comes in between is gone."""
    monkeypatch.setattr(key_events, "EVENT_BYTES", 200)
    _, machine = state()
    times = [0, FAR_MS, NOW_MS + 5, FAR_MS + 1, FAR_MS] * 4
    events = list(events_of(b"k", 0, iter([Content(HASH, WORDS, expires_ms=times)])))
    applied(machine, events, NOW_MS + 6)
    expected = [-1 if not time else -2 if time < FAR_MS else time for time in times]

    assert len(events) > 3
    assert expected == machine.read(b"HPEXPIRETIME", [b"k", b"FIELDS", b"20", *WORDS[::2]])


@pytest.mark.form(Form.FIELD_TIMES)
def test_keys_of_a_state_come_as_contents() -> None:
    """What a walk over a state gives becomes a key that is the same, field times and all."""
    store, machine = state()
    send(machine, "SET s v", "RPUSH l a b", "SADD e a b", "ZADD z -0 a 2.5 b", at_ms=NOW_MS)
    machine.apply([(6, NOW_MS, b"HSET", [b"h", *WORDS], 0, None, None)], machine.next_offset)
    machine.commit(b"the log's mark")
    send(machine, f"HPEXPIREAT h {FAR_MS} FIELDS 1 nothing", at_ms=NOW_MS)
    machine.apply(
        [(7 + 1, NOW_MS, b"HPEXPIREAT", [b"h", b"%d" % FAR_MS, b"FIELDS", b"2", *WORDS[2:6:2]], 0, None, None)],
        machine.next_offset,
    )
    machine.commit(b"the log's mark")
    copy, other = state()
    for key in live_keys(store, layout_of(), NOW_MS):
        applied(other, events_of(key.name, key.expire_ms, contents_of(key)))

    assert 5 == digest(store, layout_of(), NOW_MS).keys
    assert [-1, FAR_MS, FAR_MS] == machine.read(b"HPEXPIRETIME", [b"h", b"FIELDS", b"3", *WORDS[0:6:2]])
    assert digest(store, layout_of(), NOW_MS) == digest(copy, layout_of(), NOW_MS)


LONGEST: Final = {
    "list": lambda size: Content(LIST, [b"x" * size]),
    "hash": lambda size: Content(HASH, [b"x" * (size // 2), b"y" * (size // 2)]),
    "timed": lambda size: Content(HASH, [b"x" * (size // 2), b"y"], expires_ms=[FAR_MS]),
    "zset": lambda size: Content(ZSET, [b"x" * size], [-1.7976931348623157e308]),
}


@pytest.mark.parametrize("name_bytes", [1, 1_000_000])
@pytest.mark.parametrize("kind", LONGEST)
def test_what_passes_fits_into_an_event(kind: str, name_bytes: int) -> None:
    """The longest element that is not too large makes an event that a producer takes; none larger than a record is."""
    name = b"n" * name_bytes
    low, high = 1, RECORD_BYTES_MAX
    while high - low > 1000:
        size = (low + high) // 2
        low, high = (low, size) if too_large(name, LONGEST[kind](size)) else (size, high)
    content = LONGEST[kind](low)

    assert too_large(name, LONGEST[kind](RECORD_BYTES_MAX)).startswith("an element of ")
    assert low > RECORD_BYTES_MAX - 5 * name_bytes - 8192
    for event_name, arguments in events_of(name, FAR_MS, iter([content])):
        assert prepare(1, event_name, arguments)


def test_string_that_no_key_can_hold_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes that came in earlier parts count; one byte less passes."""
    monkeypatch.setattr(key_events, "STRING_BYTES_MAX", 10)
    part = Content(STRING, [b"12345"])

    assert ["", "a string of more than 10 bytes"] == [too_large(b"k", part, before) for before in (5, 6)]
