"""Reads of one partition's state: after everything that was applied, committed or not, and at the partition's clock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from engine import errors
from engine.apply.executor import Executor
from engine.apply.scripts import ScriptRunner
from engine.batch.in_memory.memory import MemoryHeld
from engine.batch.variants.indexed import make_transaction
from engine.commands.registry import Spec, find
from engine.errors import CommandError, DueError
from engine.store.store import Store
from engine.tables.adoption import open_layout
from engine.tables.dedup import Deduplicator
from engine.tables.libraries import Libraries
from engine.tables.scripts import Scripts
from engine.tables.system import Home, open_position
from engine.values.replies import Reply
from slotlog.shared.errors import EventError

_READS_FROM: Final = 1 << 62


class Readable:
    """The state of one partition, to be read.

    Args:
        store: opened with the column families of `home.layout`.
        home: which topic, partition and layout this is; checked against what the store says.
        key_cache_bytes: what keys, elements and rank counts may take in memory between batches.
        verify: after each rejection prove that it changed nothing. Slow: for tests and the simulation.

    Attributes:
        layout: of the partition, for all who read its store.
        is_held: left in the middle of a command or commit, which goes on later; all else raises MachineHeldError.

    Raises:
        StateMismatchError: the store holds something else.
    """

    def __init__(self, store: Store, home: Home, *, verify: bool, key_cache_bytes: int) -> None:
        self.home, self.position = home, open_position(store, home)
        self._store = store
        self.layout = open_layout(store, home)
        self._tx = make_transaction(
            store,
            self.layout,
            home.partition,
            counts=dict(self.position.counts),
            last_version=self.position.last_version,
            rules=self.position.rules,
            stored_dbs=self.position.stored_dbs,
            key_cache_bytes=key_cache_bytes,
        )
        self._dedup = Deduplicator(store, self.position.set_backs)
        self._executor = Executor(self._tx, store, home, self._dedup, self.position.clock_ms, verify=verify)
        self._next_offset = self.position.next_offset
        self._reads = 0
        self.is_held = False

    @property
    def held(self) -> MemoryHeld:
        """What is in memory between batches."""
        return self._tx.held

    def use_knobs(self, knobs: Mapping[str, int]) -> None:
        """Let OBJECT ENCODING answer by these thresholds, as they are at each moment. No part of the state."""
        self._tx.knobs = knobs

    @property
    def next_offset(self) -> int:
        """The first record that is not applied, uncommitted ones counted as applied."""
        return self._next_offset

    @property
    def clock_ms(self) -> int:
        """The highest record time seen, uncommitted ones included."""
        return self._executor.clock_ms

    @property
    def is_settled(self) -> bool:
        """Whether everything that was applied is committed."""
        return self._next_offset == self.position.next_offset

    @property
    def key_counts(self) -> dict[tuple[int, int], int]:
        """Keys with a metadata record by (logical database, type code), due ones included; if held, as committed."""
        known = self.position if self.is_held else self._tx
        logical = {stored: db for db, stored in enumerate(known.stored_dbs)}
        return {(logical[stored], type_code): count for (stored, type_code), count in known.counts.items()}

    @property
    def kept(self) -> tuple[Scripts, Libraries]:
        """The scripts and the libraries that are stored, to look at."""
        return self._tx.scripts, self._tx.libraries

    @property
    def scripts(self) -> ScriptRunner:
        """Runs its scripts."""
        return self._executor.scripts

    def only_reads(self, spec: Spec, args: list[bytes], db: int) -> bool:
        """Whether a command of the right arity is known to change nothing. While the machine is held nobody knows."""
        if spec.only_reads is None or self.is_held:
            return False
        self._tx.begin(_READS_FROM + self._reads, self._executor.clock_ms, db)
        return spec.only_reads(self._tx, args)

    def needs_memory(self, spec: Spec, args: list[bytes]) -> bool:
        """Whether a command of the right arity says that it needs more memory, as a script's flags do."""
        if spec.needs_memory is None or self.is_held:
            return False
        self._tx.begin(_READS_FROM + self._reads, self._executor.clock_ms, 0)
        return spec.needs_memory(self._tx, args)

    def evaluate(self, spec: Spec, args: list[bytes], db: int, wall_ms: int = 0, at_ms: int = 0) -> Reply:
        """The reply of a reading command whose arity, keys and database were checked: the hot path of a server's reads.

        Args:
            spec: the command.
            args: what follows its name.
            db: the logical database.
            wall_ms: what a wall clock says: where it is ahead, what is `by_wall` follows it. 0: do not ask.
            at_ms: evaluate at this time instead of the partition's clock.

        Raises:
            DueError: a key of it dies between the partition's clock and `wall_ms`, whatever its reply would be.
            CommandError: its own error.
        """
        if self.is_held:
            raise errors.MachineHeldError
        tx = self._tx
        self._reads += 1  # stands for an offset: what a read draws is another one each time
        clock_ms = self._executor.clock_ms
        now_ms = wall_ms if (ahead := wall_ms > clock_ms) and spec.by_wall else at_ms or clock_ms
        tx.begin(_READS_FROM + self._reads, now_ms, db)
        try:
            reply = spec.handler(tx, args)
        except CommandError:  # such as WRONGTYPE of a key that is due, which a TICK lets vanish
            if ahead and tx.is_due(None if spec.patterns else spec.keys(args), clock_ms, wall_ms):
                raise DueError from None
            raise
        if ahead and (
            tx.is_due_soon(args[spec.first_key], clock_ms, wall_ms)
            if spec.has_one_key  # without a list and a loop: a fifth of what a GET of a cached key takes here
            else tx.is_due(None if spec.patterns else spec.keys(args), clock_ms, wall_ms)
        ):
            raise DueError
        if tx.is_crowded() and self.is_settled:
            tx.reset_read()  # nothing is pending: what reads have loaded need not stay
        return reply

    def dies_ms(self, name: bytes, db: int) -> int:
        """When a key, or the first of its fields, dies; 0: never, or it is not there."""
        self._tx.begin(self._next_offset, self._executor.clock_ms, db)
        key = self._tx.find(name)
        return 0 if key is None else abs(key.place)

    def read(self, name: bytes, args: list[bytes], db: int = 0) -> Reply:
        """The reply of a reading command at the partition's clock, after everything applied so far.

        Raises:
            CommandError: its own error. EventError: it is unknown, writes, or names what does not belong here.
        """
        if self.is_held:
            raise errors.MachineHeldError
        spec = find(name)
        spec.check_arity(args)
        if spec.write:
            raise EventError(f"{spec.name.decode()} writes: send it as an event")
        # Also because `holds` takes a key that was loaded for one of this partition.
        self._executor.placement.check_home(spec, args, db)
        self._tx.begin(self._next_offset, self._executor.clock_ms, db)
        try:
            return spec.handler(self._tx, args)
        finally:
            if self.is_settled:
                self._tx.reset_read()  # nothing is pending: what a read loaded need not stay
