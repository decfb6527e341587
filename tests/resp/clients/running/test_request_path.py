"""The way of commands in C comes to what Python alone makes of them: items, replies, counts, and the log."""

from __future__ import annotations

import gc
import sys
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.apply.records import Record
from engine.commands.registry import SPECS
from engine.errors import CommandError
from engine.values.replies import NIL_ARRAY, OK, Status
from resp.catalog.plans import Plans
from resp.clients import output
from resp.clients.output import Filled, Place
from resp.clients.running import fast_path
from resp.clients.running.pending_reply import PendingReply
from resp.clients.running.request_path import teach
from resp.wire.encode import encode2, encode3
from resp.wire.protocol import TooLarge
from resp.writes import groups
from resp.writes.items import Item
from slotlog.log import RecordPosition
from slotlog.shared.limits import RECORD_BYTES_MAX
from slotlog.shared.slots import partition_of, slot, slot_range
from tests.engine.harness import NOW_MS, new_store, open_machine
from tests.engine.native.twins import part_in_c, reader_of, running
from tests.real.oracle import request
from tests.resp.harness import replies, serving

_PLANS: Final = Plans()
_WORDS: Final = st.binary(max_size=20) | st.sampled_from(
    [b"{a}b", b"a{}b{c}", b"{", b"}{x}", b"v" * 255, b"v" * 256, b"v" * 70_000]
)
_COMMANDS: Final = st.lists(st.lists(_WORDS, min_size=1, max_size=20), min_size=1, max_size=6)


class _Client(SimpleNamespace):
    __hash__ = object.__hash__  # type: ignore[assignment]
    __eq__ = object.__eq__


def session(encode: Any = encode2) -> Any:
    """What an item needs of one."""
    told = SimpleNamespace(pending_reply_bytes=5)
    return _Client(db=0, muted=False, encode=encode, output=told, last_position=None)


def shown(items: Sequence[Item]) -> list[dict[str, Any]]:
    """Everything in these items."""
    slots = [*Item.__slots__, *PendingReply.__slots__]
    return [{name: getattr(item, name) for name in slots} | {"type": type(item)} for item in items]


def hot() -> Any:
    """The part in C, which knows items."""
    module = part_in_c()
    teach(module)
    return module


def taken(
    name: bytes, commands: list[Any], at: int, end: int, free_bytes: int, place: tuple[int, int] = (0, 1)
) -> tuple[Any, Any]:
    """What Python and C make of writes: items, and what is left of the free bytes."""
    plan, client = _PLANS.by_name[name], session()
    alone, left = fast_path.items_of(client, plan, commands, at, end, free_bytes, *place)
    of_plan = plan.name, plan.event_head, plan.first_key, plan.arguments_min, plan.arguments_max
    items, left_natively = hot().take_writes(commands, at, end, client, plan, *of_plan, free_bytes, *place)
    return (shown(alone), left), (shown(items), left_natively)


@settings(max_examples=100)
@given(
    st.sampled_from([b"SET", b"HSET", b"INCR", b"SETEX", b"LPUSH"]),
    _COMMANDS,
    st.integers(0, 3),
    st.sampled_from([0, 500, 900, 1 << 30]),
    st.sampled_from([(0, 1), (0, 2), (1, 2), (2, 3)]),
)
def test_any_writes_become_the_same_items(
    name: bytes, words: list[list[bytes]], others: int, free_bytes: int, place: tuple[int, int]
) -> None:
    """With any arguments, up to one by another name or in another partition, within any bound."""
    commands: list[Any] = [[name, *args] for args in words]
    commands += [[name.lower(), b"k", b"v"], TooLarge(), [name]][:others]

    alone, natively = taken(name, commands, 0, len(commands), free_bytes, place)
    assert alone == natively
    alone, natively = taken(name, commands, len(commands) - 1, len(commands), free_bytes, place)
    assert alone == natively


@settings(max_examples=100)
@given(
    st.lists(st.tuples(st.sampled_from([b"SET", b"HSET", b"INCR", b"set", b"GET", b"LPOP", b"NOPE"]), _COMMANDS)),
    st.sampled_from([(True,), (True, True), (True, False, True)]),
)
def test_data_becomes_the_items_of_its_commands(
    lots: list[tuple[bytes, list[list[bytes]]]], partitions: tuple[bool, ...]
) -> None:
    """Those that were parsed one by one, up to one that is no plain write or not served; the bytes behind are left."""
    served = tuple([(None,) * 5 if is_served else None for is_served in partitions])
    plans, client = Plans(), session()
    plans.find([b"set"])
    commands = [[name, *args] for name, words in lots for args in words]
    expected: list[Any] = []
    for command in commands:
        plan = plans.by_spelling.get(command[0])
        if plan is None or command[0] not in plans.plain_writes:
            break
        place = partition_of(slot(command[1]), len(partitions))
        made, _ = fast_path.items_of(client, plan, [command], 0, 1, 1 << 30, place, len(partitions))
        if not (made and partitions[place]):
            break
        expected += made
    sent = list(map(request, commands))
    data = b"".join([*sent, b"*2\r\n$4\r\nINCR\r\n$1"])

    items, end, size = hot().take_data(data, plans.plain_writes, client, 1024, 1000, served)
    assert shown(expected) == shown(items)
    assert (sum(map(len, sent[: len(items)])), sum(item.size for item in items)) == (end, size)
    items, end, _ = hot().take_data(data, plans.plain_writes, client, 1024, 2, served)
    assert shown(expected[:2]) == shown(items)
    assert sum(map(len, sent[: len(items)])) == end


def test_the_first_and_last_slot_of_each_partition() -> None:
    """C finds the partition of a key as Python does, where one ends and the next begins."""
    keys = {slot(key): key for key in (b"%d" % number for number in range(200_000))}
    for partitions in (1, 2, 3, 7, 100):
        ends = [end for partition in range(partitions) for end in slot_range(partition, partitions)]
        at_ends = [keys[end] for end in ends if end in keys]
        data, served = b"".join([request([b"INCR", key]) for key in at_ends]), ((None,) * 5,) * partitions

        items, _, _ = hot().take_data(data, Plans().plain_writes, session(), 1024, 1000, served)
        assert len(items) > partitions
        assert [partition_of(slot(key), partitions) for key in at_ends] == [item.entry.partition for item in items]


def test_plain_writes_are_those_with_one_key_and_a_small_reply() -> None:
    """By each spelling that clients have sent: what the way from bytes to items may take."""
    plans = Plans()
    plans.find([b"hSet"])

    assert {b"SET", b"HSET", b"hSet", b"INCR", b"LPUSH", b"ZADD"} <= plans.plain_writes.keys()
    assert not {b"GET", b"MSET", b"LPOP", b"EVAL", b"PING", b"hset"} & plans.plain_writes.keys()


def test_what_is_too_large_is_no_item() -> None:
    """Too many arguments, or too many bytes, take the general way, which refuses them."""
    for command in ([b"LPUSH", *[b"x"] * 1_100_000], [b"SET", b"k", bytes(RECORD_BYTES_MAX)]):
        alone, natively = taken(command[0], [[command[0], b"k", b"v"], command], 0, 2, 1 << 30)

        assert alone == natively
        assert 1 == len(natively[0])


def test_a_planted_difference_in_items_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """If Python packed an event in another way, the comparison would show it."""
    monkeypatch.setattr(fast_path, "pack_arguments", lambda args: b"\x90")

    alone, natively = taken(b"SET", [[b"SET", b"k", b"v"]], 0, 1, 1)
    assert alone != natively


def test_records_are_the_same() -> None:
    """Of items of clients, in which their offsets stand then; all others are left to Python."""
    (module, plan) = hot(), _PLANS.by_name[b"SET"]
    items: list[Any] = fast_path.items_of(session(), plan, [[b"SET", b"k", b"v"]] * 3, 0, 3, 1000, 0, 1)[0]
    positions = [RecordPosition(0, offset, 1000 + offset) for offset in (5, 6, 7)]
    natively, offsets = module.records_of(items, positions), [item.offset for item in items]

    assert (groups.records_of(items, positions), [5, 6, 7]) == (natively, offsets)
    assert None is module.records_of([*items, Item(b"SET", [], 0)], [*positions, positions[0]])


def answered(module: Any, pairs: list[tuple[Any, Any]], large: int = 1 << 20) -> tuple[int, list[Any]]:
    """Where C stops among replies of writes, and which sessions have something to be sent."""
    ready: dict[Any, None] = {}
    return module.answer_writes(pairs, 0, OK, encode2, encode3, ready, large), list(ready)


@pytest.mark.parametrize("encode", [encode2, encode3])
def test_replies_are_encoded_alike(encode: Any) -> None:
    """Each usual reply has the bytes that Python gives it, and its session is told; any other is left to Python."""
    module, plan = hot(), _PLANS.by_name[b"SET"]
    usual = [
        OK,
        None,
        b"",
        b"x" * 9,
        b"x" * 10,
        b"x" * 100_000,
        *(-(1 << 63), -300, -3, -2, -1, 0, 255, 256, (1 << 63) - 1),
    ]
    unusual = [1 << 63, True, 2.5, [], NIL_ARRAY, Status(b"PONG"), CommandError("ERR no")]
    for reply in [*usual, *unusual]:
        client = session(encode)
        (item,), _ = fast_path.items_of(client, plan, [[b"SET", b"k", b"v"]], 0, 1, 1000, 0, 1)
        item.offset = 7
        end, ready = answered(module, [(item, reply)])

        expected = encode(reply) if reply in usual and reply is not True else None
        told = (expected, 1, [client], 5 + len(expected), (0, 7)) if expected is not None else (None, 0, [], 5, None)
        assert told == (item.data, end, ready, client.output.pending_reply_bytes, client.last_position)


def test_replies_of_many_sessions_are_given_together() -> None:
    """Each session is told of all of its own, in the order in which they first come."""
    module, plan, clients = hot(), _PLANS.by_name[b"SET"], [session(), session(encode3), session()]
    items = [fast_path.items_of(client, plan, [[b"SET", b"k", b"v"]], 0, 1, 1000, 0, 1)[0][0] for client in clients * 2]
    for offset, item in enumerate(items):
        item.offset = offset

    assert (6, clients) == answered(module, [(item, None) for item in items])
    assert [b"$-1\r\n", b"_\r\n", b"$-1\r\n"] * 2 == [item.data for item in items]
    assert [(15, (0, 3)), (11, (0, 4)), (15, (0, 5))] == [
        (client.output.pending_reply_bytes, client.last_position) for client in clients
    ]


def test_replies_that_are_much_are_left() -> None:
    """Python looks at a client for whom more than that waits."""
    module, client = hot(), session()
    items, _ = fast_path.items_of(client, _PLANS.by_name[b"SET"], [[b"SET", b"k", b"v"]] * 3, 0, 3, 4000, 0, 1)
    for item in items:
        item.offset = 1

    assert (2, [client]) == answered(module, [(item, OK) for item in items], 5 + 2 * 5)
    assert (15, None) == (client.output.pending_reply_bytes, items[2].data)


def test_replies_of_others_are_left() -> None:
    """A run ends where another plan, a read, a session that is gone, or a write that was not applied comes."""
    module, client = hot(), session()
    (one, two, three, four, five), _ = fast_path.items_of(
        client, _PLANS.by_name[b"SET"], [[b"SET", b"k", b"v"]] * 5, 0, 5, 4000, 0, 1
    )
    one.offset = two.offset = three.offset = four.offset = 1
    two.session, three.plan, four.entry = session(output.to_nobody), _PLANS.by_name[b"INCR"], None
    muted = PendingReply(client, one.plan, b"SET", [], [], one.entry)
    muted.offset, muted._muted = 1, True
    ends = [answered(module, [(one, OK), (other, OK)])[0] for other in (two, three, four, five, muted, one)]

    assert [1, 1, 1, 1, 1, 2] == ends


@pytest.mark.parametrize("filled", [0, 1, 3, 4])
def test_filled_places_are_taken_alike(filled: int) -> None:
    """Up to the first that is not there yet, in order, whatever kind they are."""
    module, took = hot(), []
    for take in (output.take_filled, module.take_filled):
        plan = _PLANS.by_name[b"SET"]
        items, _ = fast_path.items_of(session(), plan, [[b"SET", b"k", b"v"]] * 3, 0, 3, 4000, 0, 1)
        places: deque[Place] = deque([items[0], Filled(b"+1"), *items[1:]])
        for place, data in zip(list(places)[:filled], (b"+0", b"+1", b"", b"+3"), strict=False):
            place.data = data
        parts = [b"before"]
        take(places, parts)
        took.append((parts, len(places)))

    assert took[0] == took[1]


def test_items_leave_nothing_behind() -> None:
    """What was made for writes that are answered goes with them."""
    module, plan, client = hot(), _PLANS.by_name[b"SET"], session()
    commands = [[b"SET", b"k" * 30, b"v" * 600]] * 20
    of_plan = plan.name, plan.event_head, plan.first_key, plan.arguments_min, plan.arguments_max
    positions = [RecordPosition(0, 1000 + number, 5) for number in range(20)]

    def answer() -> None:
        items, _ = module.take_writes(commands, 0, 20, client, plan, *of_plan, 1 << 20, 0, 1)
        module.records_of(items, positions)
        answered(module, [(item, 70_000) for item in items])
        module.take_filled(deque(items), [])

    answer()
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(300):
        answer()
    gc.collect()

    assert sys.getallocatedblocks() - before < 200


async def test_a_late_process_is_told_as_one_slow_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the process stood still within a run of reads, SLOWLOG has one of them, and every one is counted."""
    with running(natively=True):
        async with serving(tmp_path / "log", slowlog_log_slower_than="1000") as live:
            client = await live.client()
            await client.call("SET", "k", "v")
            await client.call("GET", "k")
            before = len(live.server.slowlog)  # a busy machine may be late by itself
            times = iter(range(1000))
            monkeypatch.setattr(fast_path, "perf_counter", lambda: float(next(times)))
            client.send(*[["GET", "k"]] * 10)
            await replies(client, 10)
            monkeypatch.undo()

            assert (11, 1) == (live.server.plans.by_name[b"GET"].calls, len(live.server.slowlog) - before)


def test_strings_are_read_as_evaluate_reads_them() -> None:
    """Whatever a key holds: its value or null, or it is left to Python, as one is that is due by either clock."""
    words: list[list[Any]] = [
        [b"SET", [b"alive", b"v"]],
        [b"SET", [b"dying", b"w", b"PX", b"1000"]],
        [b"SET", [b"empty", b""]],
        [b"HSET", [b"hash", b"f", b"v"]],
        [b"DEL", [b"gone"]],
    ]
    records: list[Record] = [(at, NOW_MS, name, args, 0, None, None) for at, (name, args) in enumerate(words)]
    with running(natively=True):
        machine = open_machine(new_store())
    machine.apply(records, 0)
    for wall_ms in (0, NOW_MS + 999, NOW_MS + 1000, NOW_MS + 5000):
        for name in (b"alive", b"dying", b"empty", b"hash", b"gone", b"not in memory"):
            parts: list[bytes] = []
            answered = reader_of(machine)(0, [[b"GET", name], [b"get", name]], 0, wall_ms, True, parts)
            is_left = name in {b"hash", b"not in memory"} or (name == b"dying" and wall_ms >= NOW_MS + 1000)
            reply = None if is_left else machine.evaluate(SPECS[b"GET"], [name], 0, wall_ms)
            expected = (0, 0, []) if is_left else (1, int(reply is not None), [encode3(reply)])

            assert expected == (*answered[:2], parts)
    machine.apply([(5, NOW_MS + 1000, b"DEL", [b"gone"], 0, None, None)], 5)

    run = reader_of(machine)
    assert (0, 0, 0) == run(0, [[b"GET", b"dying"]], 0, 0, False, [])
