"""The corpus: logs in files that never change, each beside a file that says what its replay gives.

    corpus/NAME.log.gz     one msgpack array after the other, compressed:
                           the number of partitions and the topic, then of each record in the order of the log
                           [partition, offset, time_ms, key (bin or nil), value (bin or nil)]
    corpus/NAME.json       what each partition comes to: see `replay.Result`
    corpus/NAME.dump.gz    of a small log: the lines of `slotlog dump --raw`, one partition after the other

`python -m tests.golden.record` makes the files of logs that are not there yet and touches no other. A file is never
made anew: where its replay gives other bytes, a replay of a user's log does so, too.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgpack import Unpacker, packb

CORPUS: Final = Path(__file__).parent / "corpus"


class LogRecord(NamedTuple):
    """One record of a log, as a log gives it."""

    partition: int
    offset: int
    time_ms: int
    key: bytes | None
    value: bytes | None


class Log(NamedTuple):
    """A whole log."""

    partitions: int
    topic: str
    records: Sequence[LogRecord]


def names() -> list[str]:
    """The logs of the corpus."""
    return sorted(path.name.removesuffix(".log.gz") for path in CORPUS.glob("*.log.gz"))


def read_log(name: str) -> Log:
    """A log of the corpus."""
    with gzip.open(CORPUS / f"{name}.log.gz") as file:
        head, *records = Unpacker(file)
    partitions, topic = head
    return Log(partitions, topic, [LogRecord(*record) for record in records])


def read_results(name: str) -> list[dict[str, Any]]:
    """What the partitions of a log come to."""
    results: list[dict[str, Any]] = json.loads((CORPUS / f"{name}.json").read_text())
    return results


def read_dump(name: str) -> str | None:
    """What `slotlog dump --raw` prints of a log's replay; None: the log is a large one."""
    path = CORPUS / f"{name}.dump.gz"
    return gzip.decompress(path.read_bytes()).decode() if path.exists() else None


def write(name: str, log: Log, results: Sequence[dict[str, Any]], dump: str | None) -> None:
    """Make the files of a log.

    Raises:
        FileExistsError: it is there; nothing was written.
    """
    with (CORPUS / f"{name}.log.gz").open("xb") as file:
        file.write(_compressed(b"".join(map(packb, ((log.partitions, log.topic), *log.records)))))
    (CORPUS / f"{name}.json").write_text(json.dumps(results, indent=1) + "\n")
    if dump is not None:
        (CORPUS / f"{name}.dump.gz").write_bytes(_compressed(dump.encode()))


def _compressed(data: bytes) -> bytes:
    return gzip.compress(data, 9, mtime=0)
