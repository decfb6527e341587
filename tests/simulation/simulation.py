"""One simulated run: producers and an operator beside a service that is killed and started until all is applied."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from random import Random
from typing import Final
from unittest.mock import patch

from engine.limits import DEDUP_WINDOW_MS
from engine.store.store import SYSTEM_CF, Changes
from engine.tables.system import Home, skip_changes
from engine.values.encoding import parse_u64
from ingest.applying.batches.worker import Worker
from ingest.applying.consumer import Consumer
from ingest.applying.ticker import Ticker
from ingest.cleaning.cleaner import Cleaner, CleaningSettings
from ingest.dead_letters.dead_letter import DeadLetter
from ingest.reporting.observer import Cleaned, Condition, NullObserver
from slotlog.errors import AppendUncertainError, LogUnavailableError
from slotlog.events import encode
from slotlog.shared.limits import TIME_MS_MAX
from tests.layouts import home_of
from tests.simulation.cleaning import PAUSES, Janitor
from tests.simulation.disks import Disk, DiskStore
from tests.simulation.events import TICK, Command, Event, Events, Intent, Poison, Stopper
from tests.simulation.log import TOPIC, LogData, SimulatedDeadLetters, SimulatedLog
from tests.simulation.slices import RandomSlices, Reader
from tests.simulation.timeline import START_MS
from tests.simulation.world import INJECTED, InjectedError, KilledError, World, random_rates

LIFE_SECONDS_MAX: Final = 20.0
CALM_SECONDS_MAX: Final = 3600.0
LEAP_MS: Final = 10 * 365 * DEDUP_WINDOW_MS
OLDER_RULES: Final = "the log asks for rules"


class Simulation:
    """One run.

    Attributes:
        world: the faults, and what was found.
        data: the log's records.
        intents: (partition, offset) -> what the record there is meant to do.
        disks: one for each partition.
        letters: the dead letters.
        skips: what the operator has decided to go past.
        cleaning: how the service cleans up: never, as a service does it, or as one of `PAUSES` says, mostly often.
    """

    def __init__(self, random: Random, steps: int) -> None:
        self.world = World(random, random_rates(random))
        self.partitions = random.choice((1, 2, 4))
        self.data = LogData(self.partitions, lambda: self._now_ms)
        self.intents: dict[tuple[int, int], Intent] = {}
        self.disks = [Disk() for _ in range(self.partitions)]
        self.letters: dict[tuple[int, int], DeadLetter] = {}
        self.skips: set[tuple[int, int]] = set()
        self.cleaning = random.choice(("never", "as a service", "often", *PAUSES))
        self._slices = RandomSlices(self.world)  # each process has its own
        self._steps = steps
        self._now_ms = START_MS
        with_scripts = random.randrange(4) == 0  # a new runtime for each life takes long
        self._events = Events(random, self.partitions, lambda: self._now_ms, with_scripts=with_scripts)
        self._sent: list[Event] = []

    def intent(self, partition: int, offset: int) -> Intent:
        """What the record there is meant to do: what no producer has sent is a tick of the service."""
        return self.intents.get((partition, offset), TICK)

    def home(self, partition: int) -> Home:
        """What the state of a partition is."""
        return home_of(TOPIC, partition, self.partitions)

    async def run(self, between_lives: Callable[[], None]) -> None:
        """Until all is applied, or something is found; `between_lives` is called while no process lives."""
        producer = asyncio.create_task(self._produce())
        operator = asyncio.create_task(self._operate())
        try:
            while not self.world.failures and not self._finished(producer):
                await self._live(producer)
                between_lives()
                if operator.done():
                    operator.result()
                await asyncio.sleep(self.world.random.uniform(0.0, 2.0))
        finally:
            for task in (producer, operator):
                task.cancel()
            await asyncio.gather(producer, operator, return_exceptions=True)

    # -------------------------------------------------------------------------------------------------- the producers

    async def _produce(self) -> None:
        random, world = self.world.random, self.world
        for _ in range(self._steps):
            await asyncio.sleep(random.choice((0.0, 0.0, 0.01, 0.5)))
            self._pass_time()
            await asyncio.sleep(random.choice((0.0,) * 19 + (3.0,)))  # nobody writes: ticks may move the clocks
            await self._send_next()
            if random.randrange(150) == 0:
                await self._leap()
            if random.randrange(10) == 0:
                self.data.skip(random.randrange(self.partitions), random.randint(1, 3))
        await asyncio.sleep(5.0)
        world.calm = True
        await asyncio.sleep(CALM_SECONDS_MAX)
        world.fail(f"not finished {CALM_SECONDS_MAX:.0f} s after the last fault: {self._progress()}")

    async def _send_next(self) -> None:
        random = self.world.random
        again = self._sent and random.randrange(25) == 0
        event = random.choice(self._sent) if again else self._events.next()
        for partition in event.partitions:
            await self._send(event, partition)
        if event.resendable:
            self._sent.append(event)

    async def _leap(self) -> None:
        """The clock that gives times leaps ahead by years; some events later it is right, and the partitions follow."""
        self.world.met["leap"] += 1
        right_ms, clocks = self._now_ms, [self._clock_ms(partition) for partition in range(self.partitions)]
        self._now_ms += LEAP_MS
        for _ in range(self.world.random.randrange(8)):
            await self._send_next()
        self._now_ms = right_ms
        for partition, before_ms in enumerate(clocks):
            args = [b"%d" % self._clock_ms(partition), b"%d" % max(before_ms, right_ms)]
            intent = Command(b"SETCLOCK", args, 0, None)
            await self._send(Event(intent, [partition], None, encode("SETCLOCK", args)), partition)

    def _clock_ms(self, partition: int) -> int:
        """Where the clock of a partition will be when all that is in the log is applied."""
        clock_ms = 0
        for offset, time_ms, _, _ in self.data.records[partition]:
            intent = self.intent(partition, offset)
            if isinstance(intent, Stopper) or not 0 <= time_ms <= TIME_MS_MAX:
                continue
            clock_ms = max(clock_ms, time_ms)
            if isinstance(intent, Command) and intent.name == b"SETCLOCK" and int(intent.args[0]) == clock_ms:
                clock_ms = min(clock_ms, int(intent.args[1]))
        return clock_ms

    def _pass_time(self) -> None:
        """The log's time: mostly a little later, rarely by hours, and now and then a few milliseconds back."""
        random = self.world.random
        kind = random.randrange(61)
        if kind in {0, 60}:
            self._now_ms += random.randint(DEDUP_WINDOW_MS // 3, DEDUP_WINDOW_MS)
        elif kind < 4:
            self._now_ms += random.randint(1_000, 100_000)
        elif kind < 8:
            self._now_ms -= random.randint(1, 5)
        else:
            self._now_ms += random.randint(0, 200)

    async def _send(self, event: Event, partition: int) -> None:
        """Append to one partition; what carries an id is sent until it is known to be there."""
        log = SimulatedLog(self.world, self.data)
        time_ms = self._now_ms
        if isinstance(event.intent, Poison) and event.intent.time_ms is not None:
            time_ms = event.intent.time_ms
        while True:
            offset = self.data.ends[partition]
            try:
                log.send(partition, time_ms, event.key, event.value)
                known = True
            except AppendUncertainError:
                known = False
            if self.data.ends[partition] > offset:
                self.intents[partition, offset] = event.intent
            if known or not event.resendable:
                return
            await asyncio.sleep(self.world.random.choice((0.0, 0.1)))

    # --------------------------------------------------------------------------------------------------- the operator

    async def _operate(self) -> None:
        """Skips what the engine must stop at, as `slotlog skip` does: while the service does not hold the store."""
        while True:
            await asyncio.sleep(3.0)
            for partition, disk in enumerate(self.disks):
                for record in self.data.read(partition, disk.next_offset, 1):
                    position = partition, record[0]
                    if isinstance(self.intent(*position), Stopper) and disk.holder != self.world.life:
                        disk.write(skip_changes(record[0]))
                        self.skips.add(position)

    # ---------------------------------------------------------------------------------------------------- the service

    async def _live(self, producer: asyncio.Task[None]) -> None:
        """One process, from its start to its stop or death."""
        world = self.world
        self._slices = RandomSlices(world)
        consumer = self._consumer()
        reading = asyncio.create_task(Reader(world, consumer.partitions).run())
        stop = asyncio.Event()
        stopper = asyncio.create_task(self._stop_some_time(stop, producer))
        cleaning = asyncio.create_task(self._clean(consumer))
        life = world.life
        try:
            await consumer.open()
            await consumer.run(stop)
            consumer.close()
        except KilledError:
            pass
        except (InjectedError, LogUnavailableError):
            consumer.close()
        finally:
            stopper.cancel()
            cleaning.cancel()
            reading.cancel()
        with suppress(asyncio.CancelledError):
            await cleaning
        if life != world.life:
            for owned in consumer.partitions.values():
                owned.worker.gate.close()
            self._bury()
        else:
            held = [partition for partition, disk in enumerate(self.disks) if disk.holder == life]
            if held:
                world.fail(f"partitions {held} are still open after a clean stop")
            world.life += 1

    async def _clean(self, consumer: Consumer) -> None:
        """Clean beside the consumer, and tick where nobody writes, as this run does."""
        if self.cleaning == "never":
            return
        world, random = self.world, self.world.random
        log = SimulatedLog(world, self.data)
        try:
            if self.cleaning == "as a service":
                settings = CleaningSettings(random.choice((0.01, 0.3, 1.0)), random.choice((1, 3, 1000)))
                with patch("ingest.applying.ticker.now_ms", lambda: self._now_ms):
                    watch, has_room = _Watch(world), lambda _size: random.randrange(3) > 0
                    await Cleaner(
                        log, consumer.partitions, watch, consumer.conditions.stop_outside, settings, has_room
                    ).run()
            else:
                ticker = Ticker(log, consumer.partitions)
                janitor = Janitor(
                    world, consumer.partitions, consumer.conditions.stop_outside, lambda: ticker.look(self._now_ms)
                )
                await janitor.run(PAUSES[self.cleaning])
        except* KilledError:
            pass

    def _consumer(self) -> Consumer:
        world, random = self.world, self.world.random
        log = SimulatedLog(world, self.data)
        letters = SimulatedDeadLetters(world, self.letters)
        workers = {
            partition: Worker(
                self.home(partition),
                log,
                self._open_store,
                letters,
                NullObserver(),
                records_max=random.choice((1, 3, 20, 1000)),
                key_cache_bytes=random.choice((0, 2000, 1 << 20)),
                slices=self._slices,
            )
            for partition in range(self.partitions)
        }
        return Consumer(log, workers, _Watch(world), self._guard, has_room=lambda _size: random.randrange(3) > 0)

    def _open_store(self, partition: int) -> DiskStore:
        written = partial(self._check_written, partition)
        return DiskStore(self.world, self.disks[partition], written, self._slices.opportunity)

    def _guard(self) -> str:
        return f"{INJECTED}: the disk is full" if self.world.roll("disk full", self.world.rates.disk_full) else ""

    def _bury(self) -> None:
        """The process is dead: what it held is free, and perhaps the power is gone as well."""
        random = self.world.random
        power_cut = self.world.roll("power cut", self.world.rates.power_cut)
        for disk in self.disks:
            disk.holder = 0
            if power_cut:
                disk.cut_power(lambda batches: random.randint(0, batches))

    async def _stop_some_time(self, stop: asyncio.Event, producer: asyncio.Task[None]) -> None:
        """A clean stop after a while, or when all is done."""
        loop = asyncio.get_running_loop()
        until = loop.time() + (
            CALM_SECONDS_MAX if self.world.calm else self.world.random.uniform(0.0, LIFE_SECONDS_MAX)
        )
        while loop.time() < until and not self.world.failures and not self._finished(producer):  # noqa: ASYNC110
            await asyncio.sleep(0.5)  # simulated time: this polling costs nothing
        stop.set()

    # ------------------------------------------------------------------------------------------------- what must hold

    def _finished(self, producer: asyncio.Task[None]) -> bool:
        applied = all(disk.next_offset == end for disk, end in zip(self.disks, self.data.ends, strict=True))
        if producer.done():
            producer.result()
        return producer.done() or (self.world.calm and applied)

    def _progress(self) -> str:
        return ", ".join(f"{disk.next_offset} of {end}" for disk, end in zip(self.disks, self.data.ends, strict=True))

    def _check_written(self, partition: int, changes: Changes) -> None:
        """Every dead letter below the position that was just written is stored already."""
        written = changes.of(SYSTEM_CF).get(b"next_offset")
        if written is None:
            return
        for (home, offset), intent in self.intents.items():
            if home != partition or offset >= parse_u64(written) or not isinstance(intent, Poison):
                continue
            if (home, offset) not in self.letters:
                self.world.fail(f"partition {partition} went past the poison at {offset} before its letter was stored")


class _Watch(NullObserver):
    """Notices a partition that stops for a reason that nobody has injected, and what is cleaned up."""

    def __init__(self, world: World) -> None:
        self._world = world

    def condition(self, partition: int, condition: Condition, reason: str) -> None:
        """Each change of a partition's condition."""
        if reason and INJECTED not in reason and OLDER_RULES not in reason:
            self._world.fail(f"partition {partition} is {condition}: {reason}")

    def cleaned(self, partition: int, cleaned: Cleaned) -> None:
        """Each slice of the service's own cleaner."""
        names = {
            "expired": cleaned.keys,
            "fields expired": cleaned.fields,
            "reclaimed": cleaned.graves,
            "range reclaimed": cleaned.ranges,
            "forgotten": cleaned.forgotten,
        }
        self._world.met.update(names)
