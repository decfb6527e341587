"""Measures how long clients wait when the worker that owns their keys is killed.

failover_standby    another worker follows the partition, and takes over what it has
failover_alone      nobody does: another worker replays the log first

From SIGKILL to the first write, and the first read, that the other worker takes; beside the session time-out, before
which the group does not give the dead worker up.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, sleep
from typing import Final

import redis

from benchmarks.applying.sources import running_broker
from benchmarks.measure import Line
from slotlog.events import encode
from slotlog.log import Entry, open_log
from slotlog.shared.slots import partition_of, slot
from tests.faults.grouped import GroupedWorker, connect, keys_of
from tests.ops.verbs import wait_until
from tests.real.process import free_ports

_PARTITIONS: Final = 2
_AT_ONCE: Final = 1000
_RETRY_SECONDS: Final = 0.01
_GIVE_UP_SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True)
class FailoverSize:
    """How much is measured.

    Attributes:
        events: that a partition's log has.
        session_seconds: after which the group gives a worker up.
        runs: with a standby, and as many without.
    """

    events: int
    session_seconds: float
    runs: int


FAILOVER_LARGE: Final = FailoverSize(events=200_000, session_seconds=10, runs=5)
FAILOVER_SMOKE: Final = FailoverSize(events=500, session_seconds=2, runs=1)


async def run_failover(size: FailoverSize) -> AsyncIterator[Line]:
    """Measure both."""
    async with running_broker() as bootstrap:
        for name, standbys in (("failover_standby", 1), ("failover_alone", 0)):
            topic = f"bench-{secrets.token_hex(4)}"
            await _fill(f"kafka://{bootstrap}", topic, size.events)
            with ThreadPoolExecutor(1) as threads:  # in a thread of its own: a broker is called beside this loop
                times = [
                    threads.submit(_once, f"kafka://{bootstrap}", topic, standbys, size).result()
                    for _ in range(size.runs)
                ]
            writes, reads = ([each[place] for each in times] for place in (0, 1))
            figures = {
                "session_s": size.session_seconds,
                "write_s": round(median(writes), 2),
                "read_s": round(median(reads), 2),
                "beyond_session_s": round(median(writes) - size.session_seconds, 2),
                "write_max_s": round(max(writes), 2),
                "read_max_s": round(max(reads), 2),
                "events": size.events,
                "runs": size.runs,
            }
            yield Line(name, figures)


async def _fill(url: str, topic: str, events: int) -> None:
    """So many fields in hashes of each partition."""
    log = open_log(url, topic=topic, partitions=_PARTITIONS)
    await log.start()
    for key in map(str.encode, keys_of(_PARTITIONS)):
        partition, record_key = partition_of(slot(key), _PARTITIONS), slot(key).to_bytes(2, "big")
        for first in range(0, events, _AT_ONCE):
            fields = range(first, min(first + _AT_ONCE, events))
            written = [encode("HSET", [b"{%b}%d" % (key, n // 100), f"f{n}", "v" * 50]) for n in fields]
            await log.append([Entry(partition, record_key, event) for event in written])
    await log.close()


def _once(url: str, topic: str, standbys: int, size: FailoverSize) -> tuple[float, float]:
    """Seconds from the death of an owner to the first write and the first read elsewhere."""
    ports, replica_ports = free_ports(2), free_ports(2)
    with TemporaryDirectory(prefix="slotlog-bench-") as directory, ExitStack() as stack:
        start = partial(
            GroupedWorker,
            log_url=url,
            topic=topic,
            partitions=_PARTITIONS,
            session_seconds=size.session_seconds,
            standbys=standbys,
            group=f"{topic}-{secrets.token_hex(4)}",
        )
        workers = [
            stack.enter_context(start(Path(directory, str(number)), port=ports[number], replica_port=each))
            for number, each in enumerate(replica_ports)
        ]
        wait_until(lambda: all({*each.owners().values()} == {*ports} for each in workers), "both to own")
        owners = list(workers[0].owners().values())
        key = keys_of(_PARTITIONS)[owners.index(ports[0])]
        _first(ports[0], lambda client: client.set(f"{{{key}}}before", "1"))
        if standbys:
            with closing(connect(ports[0])) as client:
                wait_until(lambda: client.execute_command("WAIT", 1, 1000) == 1, "the standby")  # type: ignore[no-untyped-call]
        with ThreadPoolExecutor(2) as threads:
            began = perf_counter()
            workers[0].kill()
            writing = threads.submit(_first, ports[1], lambda client: client.set(f"{{{key}}}after", "1"))
            reading = threads.submit(_first, ports[1], lambda client: client.hlen(f"{{{key}}}0"))
            return writing.result() - began, reading.result() - began


def _first(port: int, call: Callable[[redis.Redis], object]) -> float:
    """When a worker first takes a command, which is sent to it again and again."""
    until = perf_counter() + _GIVE_UP_SECONDS
    with closing(connect(port)) as client:
        while True:
            try:
                call(client)
                return perf_counter()
            except redis.RedisError:
                if perf_counter() > until:
                    raise
            sleep(_RETRY_SECONDS)
