"""Checks at the end of a simulated run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

from engine.apply.machine import Machine
from engine.cleaning.all import Gone, clean_all
from engine.proof.digest import Digest, combine, digest
from engine.proof.walk import raw_records
from engine.store.memory import MemoryStore
from engine.store.store import GRAVEYARD_CF, Store
from engine.tables.system import open_position, skip_changes
from ingest.applying.batches.worker import Worker
from ingest.applying.consumer import Consumer
from ingest.reporting.observer import NullObserver
from tests.consistency import problems
from tests.layouts import layout_of
from tests.model import Model
from tests.simulation.disks import Disk
from tests.simulation.events import Command, Poison, Stopper
from tests.simulation.log import SimulatedLog
from tests.simulation.simulation import Simulation

REPLAY_BATCHES = (1, 2, 7, 100)


def check_between_lives(simulation: Simulation) -> None:
    """Note what does not hold while no process lives; only now and then, as it costs more than the life did."""
    if simulation.world.random.randrange(3) == 0:
        for problem in _of_contents(simulation):
            simulation.world.fail(f"after life {simulation.world.life - 1}: {problem}")


async def check(simulation: Simulation, random: Random) -> None:
    """Note in `simulation.world.failures` what does not hold."""
    world = simulation.world
    for problem in (*_of_end(simulation), *_of_letters(simulation), *_of_skips(simulation), *_of_contents(simulation)):
        world.fail(problem)
    if not world.failures:
        await _replay(simulation, random)


def _of_letters(simulation: Simulation) -> Iterator[str]:
    """The dead letters are the poison, byte for byte."""
    expected = {position for position, intent in simulation.intents.items() if isinstance(intent, Poison)}
    for position in sorted(expected - simulation.letters.keys()):
        yield f"no dead letter for {simulation.intents[position]} at {position}"
    for position, letter in sorted(simulation.letters.items()):
        if position not in expected:
            yield f"dead letter at {position}, but it was {simulation.intents[position]}: {letter.reason}"
        elif simulation.data.read(*position, 1) != [(letter.offset, letter.time_ms, letter.key, letter.value)]:
            yield f"the dead letter at {position} is not the record: {letter}"


def _of_skips(simulation: Simulation) -> Iterator[str]:
    """Nothing that the engine must stop at was passed by without an operator's decision."""
    for position, intent in sorted(simulation.intents.items(), key=lambda item: item[0]):
        if isinstance(intent, Stopper) and position not in simulation.skips:
            yield f"the record at {position} was passed by"


def _of_end(simulation: Simulation) -> Iterator[str]:
    """Everything is applied."""
    for partition, disk in enumerate(simulation.disks):
        if disk.next_offset != simulation.data.ends[partition]:
            yield f"partition {partition} is at {disk.next_offset} of {simulation.data.ends[partition]}"


def _of_contents(simulation: Simulation) -> Iterator[str]:
    """Clock, digest and inner consistency of each partition, at its position."""
    for partition, disk in enumerate(simulation.disks):
        layout = layout_of(partition)
        position = open_position(disk.live, simulation.home(partition))
        model = model_of(simulation, partition, position.next_offset)
        expected, actual = model.digest(), digest(disk.live, layout, position.clock_ms)
        if model.clock_ms != position.clock_ms:
            yield f"the clock of partition {partition} is {position.clock_ms}, not {model.clock_ms}"
        if expected != actual:
            yield f"the digest of partition {partition} is {actual}, the model's {expected}"
        for problem in problems(disk.live, simulation.home(partition)):
            yield f"partition {partition}: {problem}"


def model_of(simulation: Simulation, partition: int, end: int) -> Model:
    """The plain model after every record of the log before offset `end`, each applied once."""
    model = Model()
    for offset, time_ms, _, _ in simulation.data.records[partition]:
        if offset >= end:
            break
        intent = simulation.intent(partition, offset)
        if isinstance(intent, Command):
            model.apply(time_ms, intent.name, intent.args, intent.db, intent.event_id)
        elif isinstance(intent, Poison):
            model.pass_by(time_ms)
    return model


async def _replay(simulation: Simulation, random: Random) -> None:
    """From the log's start into an empty store, by the same consumer and without cleaning: the same records.

    Where the run was cleaned, after a full clean of both; where it was not, before it as well.
    """
    replayed = [Disk() for _ in simulation.disks]
    for partition, offset in sorted(simulation.skips):
        replayed[partition].write(skip_changes(offset))
    log = SimulatedLog(simulation.world, simulation.data)
    workers = {
        partition: Worker(
            simulation.home(partition),
            log,
            lambda number: replayed[number].live,
            None,
            NullObserver(),
            records_max=random.choice(REPLAY_BATCHES),
            key_cache_bytes=random.choice((0, 3000, 1 << 20)),
        )
        for partition in range(simulation.partitions)
    }
    consumer = Consumer(log, workers, NullObserver())
    await consumer.open()
    await consumer.run_to(dict(enumerate(simulation.data.ends)))
    consumer.close()
    stores = [disk.live for disk in simulation.disks]
    others = [disk.live for disk in replayed]
    if simulation.cleaning == "never":
        _compare(simulation, stores, others, "")
    for partition, (store, other) in enumerate(zip(stores, others, strict=True)):
        for each in (store, other):
            _clean_all(simulation, partition, each)
    _compare(simulation, stores, others, ", both cleaned,")


def _clean_all(simulation: Simulation, partition: int, store: MemoryStore) -> None:
    """Clean up everything: afterwards there is nothing to find, and nothing else has changed."""
    machine = Machine(store, simulation.home(partition))
    before = digest(store, layout_of(partition), machine.clock_ms)
    clean_all(machine, store)
    if before != digest(store, layout_of(partition), machine.clock_ms):
        simulation.world.fail(f"a full clean of partition {partition} has changed its digest")
    if clean_all(machine, store) != Gone(0, 0, 0, 0, 0, 0) or next(store.scan(GRAVEYARD_CF, b"", None), None):
        simulation.world.fail(f"a full clean of partition {partition} leaves something to clean")
    for problem in problems(store, simulation.home(partition)):
        simulation.world.fail(f"partition {partition} after a full clean: {problem}")


def _compare(simulation: Simulation, stores: list[MemoryStore], others: list[MemoryStore], when: str) -> None:
    """The stores of a run and of its replay hold the same records."""
    for partition, (mine, theirs) in enumerate(zip(stores, others, strict=True)):
        if (here := _records(mine, partition)) != (there := _records(theirs, partition)):
            without, surplus = (sorted(set(one) - set(other))[:3] for one, other in ((there, here), (here, there)))
            simulation.world.fail(
                f"the replay of partition {partition}{when} has other records: without {without}, with {surplus}"
            )


def total(simulation: Simulation) -> Digest:
    """The digest of the whole topic."""
    return combine(
        digest(disk.live, layout_of(partition), open_position(disk.live, simulation.home(partition)).clock_ms)
        for partition, disk in enumerate(simulation.disks)
    )


def met_of(simulation: Simulation) -> Counter[str]:
    """How often each fault has happened, and how many events were what."""
    models = [model_of(simulation, partition, end) for partition, end in enumerate(simulation.data.ends)]
    names = [intent.name for intent in simulation.intents.values() if isinstance(intent, Command)]
    return simulation.world.met + Counter(
        {
            "script": names.count(b"EVAL") + names.count(b"EVALSHA"),
            "function": names.count(b"FCALL"),
            "dead letter": len(simulation.letters),
            "skip": len(simulation.skips),
            "gap": sum(simulation.data.ends) - sum(map(len, simulation.data.records)),
            "tick": sum(map(len, simulation.data.records)) - len(simulation.intents),
            "applied": sum(model.applied for model in models),
            "rejected": sum(model.rejected for model in models),
            "duplicate": sum(model.duplicates for model in models),
        }
    )


def _records(store: Store, partition: int) -> list[tuple[str, bytes, bytes]]:
    return list(raw_records(store, layout_of(partition)))
