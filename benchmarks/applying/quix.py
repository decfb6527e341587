"""Quix Streams keeps the same state from the same topic: each field of a hash is one entry.

Its settings, the quickest that keep what it promises (at least once, state recoverable from the changelog topic): keys
and values as bytes, so that nothing goes through its JSON; a checkpoint every 30 seconds instead of 5; large and
compressed batches to the changelog; much fetched ahead; no fsync. All of these together gain about a tenth. Its store
is scoped by the record's key, here the slot, so the hash's name is a part of the state's key: that needs no repartition
topic, which would cost it a second round through Kafka.

The clock runs from its first record, so that joining the group and recovery do not count, until it has ended, so that
its last checkpoint does: without one nothing would be kept. `until_last_record` is its rate without that. It has a
process of its own: `python -m benchmarks.applying.quix BOOTSTRAP TOPIC RECORDS DIRECTORY`.
"""

from __future__ import annotations

import asyncio
import gc
import json
import secrets
import shutil
import sys
from asyncio.subprocess import PIPE
from pathlib import Path
from statistics import median
from typing import Any, Final

from msgpack import unpackb

from benchmarks.applying.sources import Kafka
from benchmarks.applying.subject import Batches
from benchmarks.measure import Result, Seconds, Stopwatch

_GROUP: Final = "bench-quix-"


async def compare(name: str, source: Kafka, scratch: Path, new_fields: int, pairs: int) -> Result:
    """The engine and Quix Streams in turn over HSET events of one field. `new_fields` of them meet no such field.

    Raises:
        RuntimeError: Quix Streams failed, or counted other new fields.
    """
    passes = []
    until_last = []
    for _ in range(pairs):
        gc.collect()
        engine = await source.apply(scratch / "state", source.end, Batches())
        shutil.rmtree(scratch / "state")
        report = await run(source.bootstrap, source.topic, source.end, scratch / "quix")
        shutil.rmtree(scratch / "quix")
        if report["new_fields"] != new_fields:
            raise RuntimeError(f"Quix Streams saw {report['new_fields']} new fields, the model {new_fields}")
        passes.append((engine, Seconds(*report["seconds"])))
        until_last.append(report["until_last"][0])
    return Result(name, source.end, passes, {"until_last_record": round(source.end / median(until_last))})


async def run(bootstrap: str, topic: str, records: int, directory: Path) -> dict[str, Any]:
    """Let it process a topic in a process of its own, and return what that reports.

    Raises:
        RuntimeError: it failed.
    """
    arguments = [bootstrap, topic, str(records), str(directory)]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.applying.quix", *arguments, stdout=PIPE, stderr=PIPE
    )
    output, errors = await process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"Quix Streams ended with {process.returncode}: {errors.decode()}")
    report: dict[str, Any] = json.loads(output)
    return report


def _consume(bootstrap: str, topic: str, records: int, directory: str) -> None:
    """Let it process `records` records, and print how long that took and how many fields were new."""
    from quixstreams import Application
    from quixstreams.state.rocksdb import RocksDBOptions

    watch: Stopwatch | None = None
    until_last: Seconds | None = None
    taken = new_fields = 0

    def put(value: bytes, state: Any) -> None:
        nonlocal watch, until_last, taken, new_fields
        if watch is None:
            watch = Stopwatch()
        name, field, content = unpackb(value, raw=True)[b"args"]
        key = name + b"\0" + field
        if state.get_bytes(key) is None:
            new_fields += 1
        state.set_bytes(key, content)
        taken += 1
        if taken == records:
            until_last = watch.read()

    application = Application(
        broker_address=bootstrap,
        consumer_group=_GROUP + secrets.token_hex(4),
        auto_offset_reset="earliest",
        state_dir=directory,
        loglevel="WARNING",
        commit_interval=30.0,
        rocksdb_options=RocksDBOptions(use_fsync=False),
        consumer_extra_config={"queued.min.messages": 500_000},
        producer_extra_config={"linger.ms": 50, "batch.size": 1_000_000, "compression.type": "lz4"},
    )
    source = application.topic(topic, key_deserializer="bytes", value_deserializer="bytes")
    application.dataframe(source).update(put, stateful=True)
    application.run(count=records, collect=False)
    if watch is None or until_last is None:
        raise RuntimeError(f"{taken} of {records} records came")
    print(json.dumps({"seconds": watch.read(), "until_last": until_last, "new_fields": new_fields}))


if __name__ == "__main__":
    _consume(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
