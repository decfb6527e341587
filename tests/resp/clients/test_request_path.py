"""The way of commands in C comes to what Python alone makes of them: items, replies, counts, and the log."""

from __future__ import annotations

import gc
import random
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
from resp.clients import fast_path, output
from resp.clients.output import Filled, Place
from resp.clients.pending_reply import PendingReply
from resp.clients.request_path import teach_items
from resp.wire.encode import encode2, encode3
from resp.wire.protocol import TooLarge
from resp.writes import groups
from resp.writes.items import Item
from slotlog.log import RecordPosition
from slotlog.shared.limits import RECORD_BYTES_MAX
from tests.engine.harness import NOW_MS, new_store, open_machine
from tests.engine.native.twins import part_in_c, running
from tests.resp.harness import Live, replies, serving

_PLANS: Final = Plans()
_WORDS: Final = st.binary(max_size=20) | st.sampled_from(
    [b"{a}b", b"a{}b{c}", b"{", b"}{x}", b"v" * 255, b"v" * 256, b"v" * 70_000]
)
_COMMANDS: Final = st.lists(st.lists(_WORDS, min_size=1, max_size=20), min_size=1, max_size=6)


def session(encode: Any = encode2) -> Any:
    """What an item needs of one."""
    return SimpleNamespace(db=0, muted=False, encode=encode)


def shown(items: Sequence[Item]) -> list[dict[str, Any]]:
    """Everything in these items."""
    slots = [*Item.__slots__, *PendingReply.__slots__]
    return [{name: getattr(item, name) for name in slots} | {"type": type(item)} for item in items]


def hot() -> Any:
    """The part in C, which knows items."""
    module = part_in_c()
    teach_items(module)
    return module


def taken(name: bytes, commands: list[Any], at: int, end: int, free_bytes: int) -> tuple[Any, Any]:
    """What Python and C make of writes: items, and what is left of the free bytes."""
    plan, client = _PLANS.by_name[name], session()
    alone, left = fast_path.items_of(client, plan, commands, at, end, free_bytes)
    of_plan = plan.name, plan.event_head, plan.first_key, plan.arguments_min, plan.arguments_max
    items, left_natively = hot().take_writes(commands, at, end, client, plan, *of_plan, free_bytes)
    return (shown(alone), left), (shown(items), left_natively)


@settings(max_examples=100)
@given(
    st.sampled_from([b"SET", b"HSET", b"INCR", b"SETEX", b"LPUSH"]),
    _COMMANDS,
    st.integers(0, 3),
    st.sampled_from([0, 500, 900, 1 << 30]),
)
def test_any_writes_become_the_same_items(name: bytes, words: list[list[bytes]], others: int, free_bytes: int) -> None:
    """With any arguments, as many as a command may have or not, up to one by another name, within any bound."""
    commands: list[Any] = [[name, *args] for args in words]
    commands += [[name.lower(), b"k", b"v"], TooLarge(), [name]][:others]

    alone, natively = taken(name, commands, 0, len(commands), free_bytes)
    assert alone == natively
    alone, natively = taken(name, commands, len(commands) - 1, len(commands), free_bytes)
    assert alone == natively


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
    items: list[Any] = fast_path.items_of(session(), plan, [[b"SET", b"k", b"v"]] * 3, 0, 3, 1000)[0]
    positions = [RecordPosition(0, offset, 1000 + offset) for offset in (5, 6, 7)]
    natively, offsets = module.records_of(items, positions), [item.offset for item in items]

    assert (groups.records_of(items, positions), [5, 6, 7]) == (natively, offsets)
    assert None is module.records_of([*items, Item(b"SET", [], 0)], [*positions, positions[0]])


@pytest.mark.parametrize("encode", [encode2, encode3])
def test_replies_are_encoded_alike(encode: Any) -> None:
    """Each usual reply has the bytes that Python gives it; each other one is left to Python."""
    module, plan, client = hot(), _PLANS.by_name[b"SET"], session(encode)
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
        (item,), _ = fast_path.items_of(client, plan, [[b"SET", b"k", b"v"]], 0, 1, 1000)
        item.offset = 7
        end, size = module.fill_replies([(item, reply)], 0, encode is encode3, OK)

        expected = encode(reply) if reply in usual and reply is not True else None
        assert (expected, int(expected is not None), len(expected or b"")) == (item.data, end, size)


def test_replies_of_others_are_left() -> None:
    """A run ends where another session or plan, a read, or a write that was not applied comes."""
    module, client = hot(), session()
    (one, two, three, four, five), _ = fast_path.items_of(
        client, _PLANS.by_name[b"SET"], [[b"SET", b"k", b"v"]] * 5, 0, 5, 4000
    )
    one.offset = two.offset = three.offset = four.offset = 1
    two.session, three.plan, four.entry = session(), _PLANS.by_name[b"INCR"], None
    muted = PendingReply(client, one.plan, b"SET", [], [], one.entry)
    muted.offset, muted._muted = 1, True
    ends = [
        module.fill_replies([(one, OK), (other, OK)], 0, False, OK)[0] for other in (two, three, four, five, muted, one)
    ]

    assert [1, 1, 1, 1, 1, 2] == ends


@pytest.mark.parametrize("filled", [0, 1, 3, 4])
def test_filled_places_are_taken_alike(filled: int) -> None:
    """Up to the first that is not there yet, in order, whatever kind they are."""
    module, took = hot(), []
    for take in (output.take_filled, module.take_filled):
        plan = _PLANS.by_name[b"SET"]
        items, _ = fast_path.items_of(session(), plan, [[b"SET", b"k", b"v"]] * 3, 0, 3, 4000)
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
        items, _ = module.take_writes(commands, 0, 20, client, plan, *of_plan, 1 << 20)
        module.records_of(items, positions)
        module.fill_replies([(item, 70_000) for item in items], 0, False, OK)
        module.take_filled(deque(items), [])

    answer()
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(300):
        answer()
    gc.collect()

    assert sys.getallocatedblocks() - before < 200


# ---------------------------------------------------------------------- whole conversations


def _lot(draws: random.Random, client: int) -> list[list[str]]:
    """A pipeline, in which commands of one kind often follow each other, as a client sends it to keys of its own."""
    lot: list[list[str]] = []
    while len(lot) < 40:
        key = f"{client}:{draws.randrange(6)}"
        n, h, pushed, z = (f"{client}:{name}" for name in "nhlz")
        command = draws.choice(
            [
                *[["GET", key], ["SET", key, "v" * draws.choice([0, 3, 2000])], ["get", key]],
                *[
                    ["INCR", n],
                    ["INCR", key],
                    ["HSET", h, key, "1"],
                    ["LPUSH", pushed, "a", "b"],
                    ["ZADD", z, "1", key],
                ],
                *[
                    ["GET", h],
                    ["LPUSH", h, "a"],
                    ["GET"],
                    ["SET", key],
                    ["SET", key, "v", "EX", "100"],
                    ["SET", key, "v", "EX", "0"],
                ],
                *[
                    ["DEL", key],
                    ["MGET", key, n],
                    ["PING"],
                    ["NOPE"],
                    ["SET", key, "w", "GET"],
                    ["GETRANGE", key, "0", "1"],
                ],
                *[
                    ["SELECT", draws.choice("01")],
                    ["MULTI"],
                    ["EXEC"],
                    ["CLIENT", "REPLY", "SKIP"],
                    ["HELLO", draws.choice("23")],
                ],
            ]
        )
        lot += [command] * draws.choice([1, 1, 2, 5])
    return [*lot, ["CLIENT", "REPLY", "ON"], ["DISCARD"], ["ECHO", "end"]]


async def _converse(live: Live, seed: int) -> list[object]:
    """Replies of three clients that send pipelines in turn, then all that a server tells of what it did."""
    draws, said = random.Random(seed), []
    clients = [await live.client() for _ in range(3)]
    for _ in range(8):
        for number, client in enumerate(clients):
            client.send(*_lot(draws, number))
        for client in clients:
            lot: list[Any] = []
            while not lot or lot[-1] != b"end":
                lot.append(await client.reply())
            said.append([getattr(reply, "text", reply) for reply in lot])
    server = live.server
    plans = {
        name: (plan.calls, plan.failed, plan.rejected) for name, plan in server.plans.by_name.items() if plan.calls
    }
    tails = [(each.last_command, each.received_commands) for each in server.sessions.values()]
    stats = server.stats
    counts = stats.keyspace_hits, stats.keyspace_misses, stats.errors, stats.net_output_bytes, stats.net_input_bytes
    histograms = [sum(plan.calls_by_digits) for plan in server.plans.by_name.values() if plan.calls]
    events = sorted(map(repr, await live.events()))  # which client's are first is chance
    return [said, plans, tails, counts, histograms, len(server.slowlog), events]


@pytest.mark.parametrize("slower_than", ["10000000", "0"])
async def test_conversations_are_the_same(tmp_path: Path, slower_than: str) -> None:
    """Replies, their order, what INFO counts, what SLOWLOG keeps, and the events in the log."""
    told = []
    for natively in (False, True):
        with running(natively=natively):
            async with serving(
                tmp_path / str(natively), slowlog_log_slower_than=slower_than, slowlog_max_len="100000"
            ) as live:
                told.append(await _converse(live, 7))

    for alone, here in zip(*told, strict=True):
        assert alone == here


@pytest.mark.parametrize("name", ["ended_reads", "ended_writes"])
async def test_conversations_go_by_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """These conversations would show what it does wrong: they do not go by Python alone."""
    calls: list[object] = []
    with running(natively=True):
        async with serving(tmp_path / "log") as live:
            kind = type(live.server.accounting)
            real = getattr(kind, name)

            def counting(*args: Any) -> Any:
                calls.append(args)
                return real(*args)

            monkeypatch.setattr(kind, name, counting)
            await _converse(live, 7)

    assert calls


async def test_a_late_process_is_told_as_one_slow_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the process stood still within a run of reads, SLOWLOG has one of them, and every one is counted."""
    with running(natively=True):
        async with serving(tmp_path / "log", slowlog_log_slower_than="1000") as live:
            client = await live.client()
            await client.call("SET", "k", "v")
            await client.call("GET", "k")
            times = iter(range(1000))
            monkeypatch.setattr(fast_path, "perf_counter", lambda: float(next(times)))
            client.send(*[["GET", "k"]] * 10)
            await replies(client, 10)
            monkeypatch.undo()

            assert (11, 1) == (live.server.plans.by_name[b"GET"].calls, len(live.server.slowlog))


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
            assert machine.read_run is not None
            answered = machine.read_run(0, [[b"GET", name], [b"get", name]], 0, wall_ms, True, parts)
            is_left = name in {b"hash", b"not in memory"} or (name == b"dying" and wall_ms >= NOW_MS + 1000)
            reply = None if is_left else machine.evaluate(SPECS[b"GET"], [name], 0, wall_ms)
            expected = (0, 0, []) if is_left else (1, int(reply is not None), [encode3(reply)])

            assert expected == (*answered[:2], parts)
    machine.apply([(5, NOW_MS + 1000, b"DEL", [b"gone"], 0, None, None)], 5)

    run = machine.read_run
    assert run is not None
    assert (0, 0, 0) == run(0, [[b"GET", b"dying"]], 0, 0, False, [])
