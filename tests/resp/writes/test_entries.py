"""The log's record of a client's write equals the event that the write pipeline applies."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from engine.errors import CommandError
from resp.catalog.plans import CommandKind, Plans
from resp.writes.entries import event_entry
from resp.writes.items import pack_arguments
from slotlog.events import decode
from slotlog.shared.limits import ARGUMENTS_MAX, RECORD_BYTES_MAX
from tests.real.oracle import ErrorReply
from tests.resp.harness import replies, serving

WATCH_ID = b"sixteen bytes..."


def words(chance: random.Random, count: int) -> list[bytes]:
    """Arguments of any bytes, among them empty ones and long ones."""
    return [chance.randbytes(chance.choice((0, 1, 8, 31, 32, 300, 70_000))) for _ in range(count)]


def test_events_are_read_as_they_are_applied() -> None:
    """Name, arguments, database, id and session come out of the log's bytes as the pipeline has them in memory."""
    chance = random.Random(7)
    for _ in range(200):
        args = words(chance, chance.randrange(1, 20))
        db, event_id, watch_id = chance.randrange(16), chance.choice((None, b"id")), chance.choice((None, WATCH_ID))
        entry = event_entry(0, b"RPUSH", args, args[:1], db=db, event_id=event_id, watch_id=watch_id)

        assert (7, 8, b"RPUSH", args, db, event_id, watch_id) == decode(7, 8, entry.value)


def test_transactions_are_read_as_they_are_applied() -> None:
    """The commands of an EXEC likewise."""
    chance = random.Random(8)
    steps = [[b"SET", *words(chance, 2)] for _ in range(30)]
    entry = event_entry(0, b"EXEC", steps, [], watch_id=WATCH_ID)

    assert (0, 0, b"EXEC", steps, 0, None, WATCH_ID) == decode(0, 0, entry.value)


def test_the_short_way_writes_the_same_events() -> None:
    """Head and arguments, put together by bytes, are for every write what is read from the whole."""
    args = [b"a", b"", b"\xff" * 40]
    writes = {name: plan for name, plan in Plans().by_name.items() if plan.kind is CommandKind.WRITE}

    assert {b"SET", b"HSET", b"LPUSH", b"SADD", b"ZADD"} <= set(writes)
    for name, plan in writes.items():
        assert (0, 0, name, args, 0, None, None) == decode(0, 0, plan.event_head + pack_arguments(args))


@pytest.mark.parametrize(
    ("name", "args", "text"),
    [
        (
            b"RPUSH",
            [b"x"] * (ARGUMENTS_MAX + 1),
            f"ERR an event may have {ARGUMENTS_MAX} arguments; nothing was written",
        ),
        (
            b"EXEC",
            [[b"DEL", *[b"x"] * 1000]] * (ARGUMENTS_MAX // 1000),
            f"ERR an event may have {ARGUMENTS_MAX} arguments; nothing was written",
        ),
        (
            b"SET",
            [b"k", b"v" * RECORD_BYTES_MAX],
            f"ERR an event may have {RECORD_BYTES_MAX} bytes; nothing was written",
        ),
    ],
    ids=["arguments", "arguments of a transaction", "bytes"],
)
def test_what_no_worker_would_apply_is_refused(name: bytes, args: list[Any], text: str) -> None:
    """One past the limits of an event: an error for the client, and nothing in the log."""
    with pytest.raises(CommandError) as refused:
        event_entry(0, name, args, [])

    assert text == refused.value.message


async def test_too_many_arguments_over_the_wire(tmp_path: Path) -> None:
    """A client hears it, its connection goes on, and the log has no event of it."""
    async with serving(tmp_path) as live:
        client = await live.client()
        client.send(["RPUSH", "l", *["x"] * ARGUMENTS_MAX], ["RPUSH", "l", "x"])
        refused, length = await replies(client, 2)

        assert ErrorReply(b"ERR an event may have 1048576 arguments; nothing was written") == refused
        assert 1 == length
        assert [(b"RPUSH", [b"l", b"x"])] == await live.events()
