"""The state machine of one partition: records in log order become one atomic batch and, where somebody waits, outcomes.

`apply` evaluates records into an overlay and may be called several times; `read` sees everything applied so far;
`commit` writes data, position and clock in one batch. The outcome of a record is a function of the state and the
record alone: not of the batch it came in, not of any clock.

    applied     the command ran; its reply may be an error (a rejection), which changed nothing
    dead letter the record can never be applied (EventError); the caller stores it before it commits
    duplicate   an idempotency key seen before: the first outcome again
    skipped     an operator's decision (`slotlog skip`)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Sequence
from typing import Any, Final

import engine.commands  # noqa: F401 - fills the registry
from engine.dedup import Deduplicator
from engine.errors import CROSS_SLOT, EXEC_TOO_LARGE, CommandError, CorruptionError, EventError, PartitionStoppedError
from engine.layouts import LAYOUTS
from engine.limits import DATABASES, EXEC_VALUE_BYTES_MAX, OVERLAY_BYTES_MAX, TIME_MS_MAX
from engine.registry import SPECS, Spec, check_arity, find
from engine.replies import Reply
from engine.slots import partition_of, slot
from engine.store.base import Store, is_damage
from engine.system import Home, Position, open_position, read_home, write_home, write_position
from engine.transaction import Transaction

Record = tuple[int, int, bytes, list[Any], int, bytes | None, bytes | None]
"""(offset, time_ms, name, args, db, event_id, session); name b"" and args [reason] for a record that cannot be read."""

CACHED_KEYS_MAX: Final = 16_384
_REJECTIONS_KEPT: Final = 16


class Applied:
    """What one call of `apply` did.

    Attributes:
        next_offset: the first record that it did not take; it may leave records over when the overlay is full.
        records: how many it took.
        outcomes: offset -> reply, for the offsets that somebody waits for.
        dead_letters: (offset, reason), to be stored before the commit.
        rejected_commands: command name -> how many of them were rejected.
        rejections: the first few (offset, command, message), for logs; `rejected` counts all.
        commands: command name -> how many were applied, those of transactions included.
    """

    __slots__ = (
        "commands",
        "dead_letters",
        "duplicates",
        "next_offset",
        "outcomes",
        "records",
        "rejected",
        "rejected_commands",
        "rejections",
        "skipped",
    )

    def __init__(self, next_offset: int) -> None:
        self.next_offset = next_offset
        self.records = 0
        self.rejected = 0
        self.duplicates = 0
        self.skipped = 0
        self.outcomes: dict[int, Reply] = {}
        self.dead_letters: list[tuple[int, str]] = []
        self.rejected_commands: dict[bytes, int] = {}
        self.rejections: list[tuple[int, str, str]] = []
        self.commands: defaultdict[bytes, int] = defaultdict(int)


class Machine:
    """One partition.

    Args:
        store: opened with the column families of `home.layout`.
        home: which topic, partition and layout this is; checked against what the store says.
        cached_keys_max: how many keys' metadata to keep in memory between batches (about 800 bytes each).
        verify: after each rejection prove that it changed nothing. Slow: for tests and the simulation.

    Raises:
        StateMismatchError: the store holds something else.
    """

    def __init__(
        self, store: Store, home: Home, *, verify: bool = False, cached_keys_max: int = CACHED_KEYS_MAX
    ) -> None:
        self.home = home
        self.position = open_position(store, home)
        self._store = store
        self._layout = LAYOUTS[home.layout](home.partition)
        self._clustered = home.partitions > 1
        self._tx = Transaction(
            store,
            self._layout,
            home.partition,
            counts=dict(self.position.counts),
            last_version=self.position.last_version,
            rules=self.position.rules,
            cached_keys_max=cached_keys_max,
        )
        self._dedup = Deduplicator(store)
        self._next_offset = self.position.next_offset
        self._clock_ms = self.position.clock_ms
        self._fresh = read_home(store) is None
        self._waiting: Container[int] = frozenset()
        self._verify = verify

    @property
    def next_offset(self) -> int:
        """The first record that is not applied, uncommitted ones counted as applied."""
        return self._next_offset

    @property
    def clock_ms(self) -> int:
        """The highest record time seen, uncommitted ones included."""
        return self._clock_ms

    @property
    def key_counts(self) -> dict[tuple[int, int], int]:
        """Keys with a metadata record by (logical database, type code), due ones included."""
        return dict(self._tx.counts)

    def apply(
        self,
        records: Sequence[Record],
        from_position: int,
        waiting: Container[int] = frozenset(),
        to_position: int = 0,
    ) -> Applied:
        """Evaluate `records`, which a log gave from offset `from_position` on, into the overlay.

        Args:
            records: in offset order; gaps are legal, as Kafka keeps its transaction markers there.
            from_position: must be `next_offset`, so that nothing is lost or applied twice between two fetches.
            waiting: the offsets whose outcome somebody waits for.
            to_position: where the log went on after the last of them, when it passed by offsets without a record.

        Raises:
            PartitionStoppedError: a record hit a bug of ours or a newer rule. Everything since the last commit is
                forgotten; apply the records before it again and stop there.
            CorruptionError: stored bytes are damaged. Everything since the last commit is forgotten.
        """
        if from_position != self._next_offset or (records and records[0][0] < from_position):
            message = f"records from offset {from_position}, but the next one to apply is {self._next_offset}"
            raise ValueError(message)
        applied = Applied(from_position)
        tx, skips = self._tx, self.position.skips
        offset, name = from_position - 1, b""
        taken = 0
        self._waiting = waiting
        try:
            for offset, time_ms, name, args, db, event_id, _ in records:
                taken += 1
                if offset in skips:
                    applied.skipped += 1
                elif 0 <= time_ms <= TIME_MS_MAX:
                    if time_ms > self._clock_ms:  # noqa: PLR1730 - a call of max costs 0.1 us here
                        self._clock_ms = time_ms
                    try:
                        reply = self._apply_one(offset, name, args, db, event_id, applied)
                    except EventError as error:
                        applied.dead_letters.append((offset, error.reason))
                    else:
                        if offset in waiting:
                            applied.outcomes[offset] = reply
                else:
                    applied.dead_letters.append((offset, f"time {time_ms} is outside 0 … {TIME_MS_MAX} ms"))
                if tx.value_bytes > OVERLAY_BYTES_MAX:
                    break
        except Exception as error:
            self.rollback()
            if is_damage(error):  # no fault of the record: skipping it would lose an event
                message = f"the state is damaged ({error}); rebuild it with `slotlog replay`"
                raise CorruptionError(message) from error
            raise PartitionStoppedError(offset, name, error) from error
        applied.records = taken
        self._next_offset = offset + 1
        if taken == len(records):
            self._next_offset = max(self._next_offset, to_position)
        applied.next_offset = self._next_offset
        return applied

    def read(self, name: bytes, args: list[bytes], db: int = 0) -> Reply:
        """The reply of a reading command at the partition's clock, after everything applied so far.

        Raises:
            CommandError: the command's own error.
            EventError: unknown command, wrong number of arguments, a command that writes, a database or a key that does
                not belong here.
        """
        spec = find(name)
        check_arity(spec, args)
        if spec.write:
            message = f"{spec.name.decode()} writes: send it as an event"
            raise EventError(message)
        self._check_home(spec, args, db)  # also because `holds` takes a key that was loaded for one of this partition
        self._tx.begin(self._next_offset, self._clock_ms, db)
        try:
            return spec.handler(self._tx, args)
        finally:
            if self._next_offset == self.position.next_offset:
                self._tx.reset(written=True)  # nothing is pending: what a read loaded need not stay

    def commit(self, fingerprint: bytes | None) -> None:
        """Write everything applied since the last commit as one batch, with position and clock.

        Args:
            fingerprint: the log's mark of the last data record applied.

        Raises:
            StoreBusyError: nothing was written; call again.
            Exception: the store's own; whether the batch was written is unknown, so this machine is done for.
        """
        changes = self._tx.changes()
        position = Position(
            next_offset=self._next_offset,
            clock_ms=self._clock_ms,
            last_version=self._tx.last_version,
            rules=self._tx.rules,
            fingerprint=fingerprint or self.position.fingerprint,
            counts=dict(self._tx.counts),
            skips=self.position.skips,
        )
        if self._fresh:
            write_home(changes, self.home)
        write_position(changes, position)
        self._dedup.add_to(changes)
        self._store.write(changes)
        self._fresh = False
        self.position = position
        self._tx.reset(written=True)
        self._dedup.reset()

    def rollback(self) -> None:
        """Forget everything since the last commit."""
        position = self.position
        self._next_offset, self._clock_ms = position.next_offset, position.clock_ms
        self._tx.reset(written=False)
        self._tx.counts = dict(position.counts)
        self._tx.last_version = position.last_version
        self._tx.rules = position.rules
        self._dedup.reset()

    # ------------------------------------------------------------------ one record

    def _apply_one(
        self, offset: int, name: bytes, args: list[Any], db: int, event_id: bytes | None, applied: Applied
    ) -> Reply:
        """Hot path: one call per record, plain attributes, no object per record (profile: docs/performance.md)."""
        spec = SPECS.get(name)
        if spec is None:
            return self._apply_unusual(offset, name, args, db, event_id, applied)
        if not spec.arguments_min <= len(args) <= spec.arguments_max:
            check_arity(spec, args)
        tx = self._tx
        tx.begin(offset, self._clock_ms, db)
        if spec.physical or db or self._clustered:
            self._check_place(spec, args, db)
        if event_id is not None:
            first = self._dedup.outcome(event_id, self._clock_ms)
            if first is not None:
                applied.duplicates += 1
                return first[0]
        applied.commands[name] += 1
        try:
            reply = spec.handler(tx, args) if not self._verify else self._verified(spec, args)
        except CommandError as error:
            reply = self._reject(spec, error, offset, applied)
        if event_id is not None:
            self._dedup.remember(event_id, self._clock_ms, offset, reply)
        return reply

    def _reject(self, spec: Spec, error: CommandError, offset: int, applied: Applied) -> CommandError:
        """Count and note a command that refused to run; its error is its reply."""
        applied.rejected += 1
        applied.rejected_commands[spec.name] = applied.rejected_commands.get(spec.name, 0) + 1
        if len(applied.rejections) < _REJECTIONS_KEPT:
            applied.rejections.append((offset, spec.name.decode(), error.message))
        return error

    def _verified(self, spec: Spec, args: list[bytes]) -> Reply:
        """Run a command, and prove that it changed nothing if it fails."""
        before = self._tx.image()
        try:
            return spec.handler(self._tx, args)
        except CommandError as error:
            if self._tx.image() != before:
                message = f"{spec.name!r} changed something before it failed"
                raise AssertionError(message) from error
            raise

    def _run(self, spec: Spec, args: list[bytes], offset: int, applied: Applied) -> Reply:
        """One command of a transaction."""
        applied.commands[spec.name] += 1
        try:
            if self._tx.written_bytes > EXEC_VALUE_BYTES_MAX:
                raise CommandError(EXEC_TOO_LARGE)  # noqa: TRY301 - a refusal like any other
            return spec.handler(self._tx, args) if not self._verify else self._verified(spec, args)
        except CommandError as error:
            return self._reject(spec, error, offset, applied)

    def _apply_unusual(
        self, offset: int, name: bytes, args: list[Any], db: int, event_id: bytes | None, applied: Applied
    ) -> Reply:
        """A transaction, a name in another case, or nothing that can be applied."""
        if not name:
            raise EventError(args[0].decode(errors="backslashreplace"))
        upper = name.upper()
        if upper != b"EXEC":
            return self._apply_one(offset, find(upper).name, args, db, event_id, applied)
        steps = self._check_transaction(args, db)
        tx = self._tx
        tx.begin(offset, self._clock_ms, db)
        first = None if event_id is None else self._dedup.outcome(event_id, self._clock_ms)
        if first is not None:
            applied.duplicates += 1
            return first[0]
        wanted = event_id is not None or offset in self._waiting
        reply = []
        for spec, step in steps:
            if spec.write or wanted:  # a read that nobody waits for would cost its reply's memory for nothing
                outcome = self._run(spec, step, offset, applied)
                if wanted:
                    reply.append(outcome)
        if event_id is not None:
            self._dedup.remember(event_id, self._clock_ms, offset, reply)
        return reply

    # ------------------------------------------------------------------ checks before anything runs

    def _check_transaction(self, steps: list[list[bytes]], db: int) -> list[tuple[Spec, list[bytes]]]:
        """Every command of an EXEC, checked whole: names, arity, keys; then each stands or falls alone."""
        checked = []
        names: list[bytes] = []
        for name, *args in steps:
            spec = find(name)
            check_arity(spec, args)
            if spec.keyless and (self._clustered or not spec.transactional):
                message = f"{spec.name.decode()} cannot be part of a transaction"
                raise EventError(message)
            if spec.physical or db or self._clustered:
                self._check_place(spec, args, db)
            if self._clustered:
                names += spec.keys(args)
            checked.append((spec, args))
        if len({slot(key) for key in names}) > 1:
            raise EventError(CROSS_SLOT)
        return checked

    def _check_place(self, spec: Spec, args: list[bytes], db: int) -> None:
        """Refuse what cannot stand in any event or not in this partition."""
        if spec.physical:
            message = f"{spec.name.decode()} counts keys that are due as well: it cannot be an event"
            raise EventError(message)
        self._check_home(spec, args, db)

    def _check_home(self, spec: Spec, args: list[bytes], db: int) -> None:
        """Refuse a database or keys that do not belong to this partition."""
        if not self._clustered:
            if not 0 <= db < DATABASES:
                message = f"db {db} is out of range, there are {DATABASES}"
                raise EventError(message)
            return
        if db:
            message = f"db {db}: a topic of several partitions has database 0 alone"
            raise EventError(message)
        if spec.many_keys:
            self._check_slots(spec.keys(args))
        elif spec.first_key >= 0 and not self._tx.holds(args[spec.first_key]):
            self._check_slots([args[spec.first_key]])

    def _check_slots(self, keys: list[bytes]) -> None:
        first = slot(keys[0])
        for key in keys:
            if slot(key) != first:
                raise EventError(CROSS_SLOT)
        expected = partition_of(first, self.home.partitions)
        if expected != self.home.partition:
            message = f"slot {first} belongs to partition {expected}, not {self.home.partition}: wrong partitioner"
            raise EventError(message)
