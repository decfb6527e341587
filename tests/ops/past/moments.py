"""Logs whose content is known at each offset, and random moments of them."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from random import Random
from typing import Any, Final, NamedTuple

from engine.proof.digest import Digest
from ops.demo.flights import events as flight_events
from ops.demo.flights import read_flights
from slotlog.events import encode
from slotlog.log import Entry
from tests.golden.corpus import read_log
from tests.model import Model
from tests.ops.past.logs import START_MS
from tests.simulation.events import Command, Events, Poison

MOMENTS: Final = int(os.environ.get("PAST_MOMENTS", "8"))
"""How many are looked at of each log; `make nightly` asks for more of them, in longer logs."""

_NO_LOG_TAKES: Final = ("time", "no value")


class Known(NamedTuple):
    """An entry of a log, and what the plain model is told of it; None: its time alone, as nobody can apply it."""

    entry: Entry
    told: tuple[bytes, list[Any], int, bytes | None] | None


class Moment(NamedTuple):
    """A moment of a log.

    Attributes:
        text: as the verb and a client name it.
        offset: the first one that does not count.
    """

    text: str
    offset: int


def flights() -> list[Known]:
    """The events of the departure board about some flights of the month: most have left it by time at its end."""
    some = list(read_flights())[:: max(1, 1200 // MOMENTS)]
    return [
        Known(
            Entry(0, None, encode(name, args, id=event_id), time_ms),
            (name.encode(), _as_bytes(args), 0, None if event_id is None else event_id.encode()),
        )
        for time_ms, name, args, event_id in flight_events(some)
    ]


def known_events(seed: int = 7) -> list[Known]:
    """All commands that the plain model knows, in transactions and with ids, and records that nobody can apply."""
    random, now_ms = Random(seed), START_MS
    made = Events(random, 1, lambda: now_ms, with_scripts=False)
    known: list[Known] = []
    while len(known) < 40 * MOMENTS:
        now_ms += random.randrange(300)
        _, partitions, key, value = event = made.next()
        if isinstance(event.intent, Command):
            known.append(Known(Entry(partitions[0], key, value or b"", now_ms), event.intent))
        elif isinstance(event.intent, Poison) and event.intent.what not in _NO_LOG_TAKES:
            known.append(Known(Entry(partitions[0], key, value or b"", now_ms), None))
    return known


def every_command() -> list[Known]:
    """A recorded log: every command that writes, scripts, a clock that is set back. The model does not know all."""
    records = read_log("everything").records
    return [Known(Entry(0, key, value or b"", time_ms), None) for _, _, time_ms, key, value in records]


def moments(known: list[Known], seed: int) -> list[Moment]:
    """Random ones, by offset and by time, in no order."""
    random = Random(seed)
    found = []
    for number in range(MOMENTS):
        offset = random.randrange(len(known) + 1)
        if number % 2 and offset < len(known):
            time_ms = known[offset].entry.time_ms or 0
            offset = next(at for at, each in enumerate(known) if (each.entry.time_ms or 0) >= time_ms)
            found.append(Moment(f"@{time_ms}", offset))
        else:
            found.append(Moment(str(offset), offset))
    return found


def folded(known: list[Known], offsets: Collection[int]) -> Iterator[tuple[int, Digest]]:
    """By offset: the digest of the plain model that has applied what stands before."""
    model = Model()
    for offset in range(len(known) + 1):
        if offset in offsets:
            yield offset, model.digest()
        if offset < len(known):
            entry, told = known[offset]
            time_ms = entry.time_ms or 0
            if told is None:
                model.pass_by(time_ms)
            else:
                model.apply(time_ms, *told)


def _as_bytes(args: list[Any]) -> list[Any]:
    return [_as_bytes(each) if isinstance(each, list) else str(each).encode() for each in args]
