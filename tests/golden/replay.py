"""One partition of a recorded log, replayed: every outcome, digest and record of the state, as hashes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple
from unittest.mock import patch

from engine.apply.machine import Applied, Machine, Record
from engine.cleaning.all import clean_all
from engine.cleaning.sweep import Sweeper
from engine.commands.server import partitions
from engine.errors import DueLeftError, PartitionStoppedError
from engine.proof.digest import digest
from engine.proof.walk import raw_records
from engine.store.memory import MemoryStore
from engine.store.store import Store
from engine.tables.system import RULES, Home
from engine.values.replies import pack
from slotlog.events import decode
from tests.golden.corpus import Log
from tests.layouts import column_families, home_of, layout_of

FINGERPRINT: Final = b"golden"
"""Stands for the log's own mark of its last record."""

_BATCH: Final = 100
_EVERY_OFFSET: Final = range(1 << 62)
_SWEPT_KEYS_MAX: Final = 1000


class Result(NamedTuple):
    """What a replay of one partition has come to; hashes are SHA-256.

    `outcomes` is the hash of each record's reply or reason, `dump` that of what `slotlog dump --raw` prints, and
    `cleaned` that of the same after a full clean. `stopped` is the offset and command of a record that no engine of
    these rules can apply; the replay ended before it.
    """

    records: int
    next_offset: int
    clock_ms: int
    rules: int
    commands: dict[str, int]
    rejected: int
    dead_letters: int
    duplicates: int
    stopped: list[Any] | None
    outcomes: str
    digest: str
    dump_lines: int
    dump: str
    cleaned: str


class Replayed(NamedTuple):
    """The result, and the lines of the dump."""

    result: Result
    lines: list[str]


class _Replay:
    """The machine of one partition, and what became of its records so far."""

    def __init__(self, home: Home) -> None:
        self.layout = layout_of(home.partition)
        self.store: Store = MemoryStore(column_families())
        self.machine = Machine(self.store, home)
        self.outcomes = sha256()
        self.commands: Counter[str] = Counter()
        self.records = self.rejected = self.dead_letters = self.duplicates = 0
        self.stopped: list[Any] | None = None

    def run(self, records: Sequence[Record]) -> None:
        """Apply in batches, up to a record that stops the partition."""
        at = 0
        while at < len(records) and self.stopped is None:
            try:
                at += self._apply(records[at : at + _BATCH])
            except PartitionStoppedError as stop:
                before = [record for record in records[at : at + _BATCH] if record[0] < stop.offset]
                while before:
                    taken = self._apply(before)
                    at += taken
                    before = before[taken:]
                if isinstance(stop.__cause__, DueLeftError):
                    self._sweep()
                    at += self._apply(records[at : at + 1])
                else:
                    self.stopped = [stop.offset, records[at][2].decode()]

    def _apply(self, records: Sequence[Record]) -> int:
        applied = self.machine.apply(records, self.machine.next_offset, _EVERY_OFFSET)
        self.machine.commit(FINGERPRINT)
        self._count(applied)
        return applied.records

    def _sweep(self) -> None:
        """Remove all that is due, as a worker does before a record that sets the clock back."""
        sweeper = Sweeper(self.machine, self.store)
        while sweeper.expire(_SWEPT_KEYS_MAX).more:
            pass

    def _count(self, applied: Applied) -> None:
        self.records += applied.records
        self.rejected += applied.rejected
        self.dead_letters += len(applied.dead_letters)
        self.duplicates += applied.duplicates
        self.commands.update({name.decode(): count for name, count in applied.commands.items()})
        outcomes = {offset: pack(reply) for offset, reply in applied.outcomes.items()}
        outcomes |= {offset: b"!" + reason.encode() for offset, reason in applied.dead_letters}
        for offset, outcome in sorted(outcomes.items()):
            self.outcomes.update(b"%d %d " % (offset, len(outcome)) + outcome)

    def result(self) -> Replayed:
        """What it came to."""
        machine = self.machine
        found = digest(self.store, self.layout, machine.clock_ms)
        lines = self._lines()
        clean_all(machine, self.store)
        result = Result(
            records=self.records,
            next_offset=machine.next_offset,
            clock_ms=machine.clock_ms,
            rules=machine.position.rules,
            commands=dict(sorted(self.commands.items())),
            rejected=self.rejected,
            dead_letters=self.dead_letters,
            duplicates=self.duplicates,
            stopped=self.stopped,
            outcomes=self.outcomes.hexdigest(),
            digest=str(found),
            dump_lines=len(lines),
            dump=_hash(lines),
            cleaned=_hash(self._lines()),
        )
        return Replayed(result, lines)

    def _lines(self) -> list[str]:
        records = raw_records(self.store, self.layout)
        return [json.dumps({"cf": name, "key": key.hex(), "value": value.hex()}) for name, key, value in records]


def replay(log: Log, partition: int, known_rules: int = RULES) -> Replayed:
    """Replay one partition of a log into an empty store.

    Args:
        log: it.
        partition: the number.
        known_rules: the newest rules that the engine knows, as one of an earlier release.
    """
    one = _Replay(home_of(log.topic, partition, log.partitions))
    with patch.object(partitions, "RULES", known_rules):
        one.run([decode(each.offset, each.time_ms, each.value) for each in log.records if each.partition == partition])
    return one.result()


def _hash(lines: Iterable[str]) -> str:
    return sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()
