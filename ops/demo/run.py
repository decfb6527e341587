"""The demo's steps: send the events, apply them, read the results, look back, rebuild the state from the log.

One partition, the embedded log, explicit event times: log time runs through January 2013, so flights leave the board.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from time import perf_counter
from typing import Any, Final, NamedTuple

from engine.apply.machine import Applied, Machine
from ingest.applying.batches.worker import Worker
from ingest.applying.consumer import Consumer
from ingest.reporting.observer import NullObserver
from ops.config import ConfigError, Settings
from ops.demo.checks import Check, checks
from ops.demo.flights import Expected, Flight, FlightEvent, events, expected
from ops.demo.past import PastWalk, walk_past
from ops.progress import progress
from ops.snapshots.starting import start_from_snapshot
from ops.state.opening.directories import home_of, prepare_data, reading, store_opener
from ops.state.rebuilding.replay import Replayed, replay
from ops.state.rebuilding.replay_plan import Until
from slotlog.log import open_log
from slotlog.producer import Producer

STATE: Final = "state"
REPLAYED: Final = "replayed"
"""The two directories that the demo makes; the log lies in the first."""

EARLIER: Final = "then"
"""Where the demo suggests to replay to, up to an earlier moment; the next demo removes it with the others."""

_SHOWN_EVERY: Final = 1000


class Read(NamedTuple):
    """A read of the results, and what the state answered."""

    check: Check
    reply: Any


class Report(NamedTuple):
    """The results of the demo.

    `sent` counts events, `commands` what was applied (those of transactions one by one), `duplicates` the events that
    were known by their idempotency key. Seconds are wall time.
    """

    flights: int
    sent: int
    send_seconds: float
    apply_seconds: float
    commands: int
    duplicates: int
    rejected: int
    dead_letters: int
    expected: Expected
    reads: list[Read]
    past: PastWalk
    replay_seconds: float
    replayed: Replayed

    @property
    def wrong(self) -> list[Read]:
        """The reads whose reply is not what the table of flights says."""
        return [read for read in self.reads if read.reply != read.check.reply]

    @property
    def right(self) -> bool:
        """Whether everything is as it must be."""
        fine = not (self.wrong or self.rejected or self.dead_letters)
        return fine and self.past.is_right and self.replayed.live_digest == self.replayed.digest


def demo_settings(settings: Settings, directory: Path) -> Settings:
    """The settings for a demo in `directory`: whatever else is set, one partition and the embedded log."""
    return settings.model_copy(update={"data": directory / STATE, "log": "", "partitions": 1, "own": ""})


async def run(settings: Settings, flights: list[Flight]) -> Report:
    """The whole demo, with `settings` from `demo_settings` on an empty directory.

    Raises:
        ConfigError: there is something in the directory already.
    """
    if settings.data.exists():
        raise ConfigError(f"{settings.data} is there already; the demo needs an empty directory")
    prepare_data(settings)
    sent, send_seconds = await _send(settings, list(events(flights)))
    tally, apply_seconds = await _apply(settings, sent)
    facts = expected(flights)
    reads = _read(settings, checks(facts))
    past = await walk_past(settings, flights, lambda: _apply(settings, None))
    began = perf_counter()
    (replayed,) = await replay(settings, settings.data.with_name(REPLAYED), Until(), start=start_from_snapshot)
    return Report(
        flights=len(flights),
        sent=sent,
        send_seconds=send_seconds,
        apply_seconds=apply_seconds,
        commands=tally.commands,
        duplicates=tally.duplicates,
        rejected=tally.rejected,
        dead_letters=tally.dead_letters,
        expected=facts,
        reads=reads,
        past=past,
        replay_seconds=perf_counter() - began,
        replayed=replayed,
    )


class _Tally(NullObserver):
    """Sums up what the worker reports."""

    def __init__(self) -> None:
        self.commands = self.duplicates = self.rejected = self.dead_letters = 0

    def applied(self, partition: int, applied: Applied, value_bytes: int, seconds: float) -> None:
        """Add one batch."""
        self.commands += sum(applied.commands.values())
        self.duplicates += applied.duplicates
        self.rejected += applied.rejected
        self.dead_letters += len(applied.dead_letters)


async def _send(settings: Settings, stream: list[FlightEvent]) -> tuple[int, float]:
    """Send the events as a service would; returns how many, and the seconds until all were durable."""
    log = open_log(settings.log_url, topic=settings.topic, partitions=1)
    await log.start()
    began = perf_counter()
    try:
        with progress("send", len(stream), "events") as advance:
            async with Producer(log) as producer:
                for sent, event in enumerate(stream):
                    await producer.send(event.name, *event.args, id=event.event_id, time_ms=event.time_ms)
                    if sent % _SHOWN_EVERY == 0:
                        advance(sent)
            advance(len(stream))
    finally:
        await log.close()
    return len(stream), perf_counter() - began


async def _apply(settings: Settings, end: int | None) -> tuple[_Tally, float]:
    """Apply the log up to offset `end`; None: to its end."""
    log = open_log(settings.log_url, topic=settings.topic, partitions=1, create=False)
    await log.start()
    end = await log.end_offset(0) if end is None else end
    tally = _Tally()
    worker = Worker(home_of(settings, 0), log, store_opener(settings, settings.data), None, tally)
    consumer = Consumer(log, {0: worker}, tally)
    began = perf_counter()
    try:
        await consumer.open()
        with progress("apply", end, "events") as advance:
            await consumer.run_to({0: end}, lambda: advance(worker.machine.next_offset))
    finally:
        consumer.close()
        await log.close()
    return tally, perf_counter() - began


def _read(settings: Settings, wanted: Iterable[Check]) -> list[Read]:
    """Run each read on the state."""
    with reading(settings, 0) as (_, machine):
        return [Read(check, _reply(machine, check.command)) for check in wanted]


def _reply(machine: Machine, command: list[str]) -> Any:
    name, *args = (word.encode() for word in command)
    return machine.read(name, args)
