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

from collections.abc import Container, Mapping, Sequence
from typing import Any, Final

import engine.commands  # noqa: F401 - fills the registry
from engine import errors
from engine.apply.admission import Placement
from engine.apply.observed import run_watched
from engine.apply.records import Applied, Record
from engine.apply.set_back import retimed, set_back
from engine.batch.transaction import Transaction
from engine.commands.registry import SPECS, Spec, find
from engine.errors import EXEC_TOO_LARGE, ClockSetBackError, CommandError, DueError, PartitionStoppedError
from engine.layouts import make_layout
from engine.limits import EXEC_VALUE_BYTES_MAX, OVERLAY_BYTES_MAX
from engine.store.failures import damaged
from engine.store.store import Store, is_damage
from engine.tables.compaction_notes import notes_in
from engine.tables.dedup import Deduplicator
from engine.tables.system import Home, Position, open_position, read_home, write_home, write_position
from engine.types.sessions import end_watches
from engine.values.replies import NIL_ARRAY, OK, Reply, TransactionReplies
from slotlog.shared.errors import EventError, InvariantError
from slotlog.shared.limits import SESSION_BYTES, TIME_MS_MAX

__all__ = ["CACHED_KEYS_MAX", "Applied", "Machine", "Record"]

CACHED_KEYS_MAX: Final = 16_384
_READS_FROM: Final = 1 << 62
# Each command of a transaction numbers its draws from its own place on: reads among them do not run in every replay.
_DRAWS_OF_A_STEP: Final = 1 << 32


class Machine:
    """One partition.

    Args:
        store: opened with the column families of `home.layout`.
        home: which topic, partition and layout this is; checked against what the store says.
        cached_keys_max: how many keys' metadata to keep in memory between batches (about 800 bytes each).
        verify: after each rejection prove that it changed nothing. Slow: for tests and the simulation.

    Attributes:
        layout: of the partition, for all who read its store.
        is_held: left in the middle of a command or commit, which goes on later; all else raises MachineHeldError.

    Raises:
        StateMismatchError: the store holds something else.
    """

    def __init__(
        self, store: Store, home: Home, *, verify: bool = False, cached_keys_max: int = CACHED_KEYS_MAX
    ) -> None:
        self.home, self.position = home, open_position(store, home)
        self._store = store
        self.layout = make_layout(home.layout, home.partition, home.partitions)
        self._clustered = home.partitions > 1
        self._tx = Transaction(
            store,
            self.layout,
            home.partition,
            counts=dict(self.position.counts),
            last_version=self.position.last_version,
            rules=self.position.rules,
            stored_dbs=self.position.stored_dbs,
            cached_keys_max=cached_keys_max,
        )
        self._placement = Placement(home, self._tx.holds)
        self._dedup = Deduplicator(store, self.position.set_backs)
        self.notes = self._tx.staging.notes  # of deleted ranges, since a reclaimer looked: compaction_notes.py
        self._next_offset, self._clock_ms = self.position.next_offset, self.position.clock_ms
        self._fresh = read_home(store) is None
        self._waiting: Container[int] = frozenset()
        self.is_held = self._witnessing = self._plain = self.has_changed = False
        self._verify, self._reads = verify, 0
        self._choose_path()

    @property
    def witnessing(self) -> bool:
        """Whether `Applied.modified` is filled: for a server whose clients wait for keys. No part of the state."""
        return self._witnessing

    @witnessing.setter
    def witnessing(self, witnessing: bool) -> None:
        self._witnessing = witnessing
        self._choose_path()

    def use_knobs(self, knobs: Mapping[str, int]) -> None:
        """Let OBJECT ENCODING answer by these thresholds, as they are at each moment. No part of the state."""
        self._tx.knobs = knobs

    def _choose_path(self) -> None:
        """Whether commands simply run: nobody looks at what they change. One attribute, as the hot path asks for it."""
        self._plain = not (self._verify or self._witnessing or self._tx.watches)

    @property
    def next_offset(self) -> int:
        """The first record that is not applied, uncommitted ones counted as applied."""
        return self._next_offset

    @property
    def clock_ms(self) -> int:
        """The highest record time seen, uncommitted ones included."""
        return self._clock_ms

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

    def apply(  # noqa: C901 - one more call for each record would cost 0.1 us
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
            StoreBusyError, Exception: as `commit`, of a collection that is too large for one batch (batch/staging.py).
            CorruptionError: stored bytes are damaged. Everything since the last commit is forgotten.
        """
        if self.is_held:
            raise errors.MachineHeldError
        if from_position != self._next_offset or (records and records[0][0] < from_position):
            raise ValueError(f"records from offset {from_position}, but the next one to apply is {self._next_offset}")
        if records and records[-1][0] - from_position + 1 < len(records):  # for each record it would cost 0.2 %
            raise InvariantError(f"{len(records)} records from {from_position} to {records[-1][0]}")
        applied = Applied(from_position)
        applied.first_time_ms = records[0][1] if records else 0
        tx, skips = self._tx, self.position.skips.within(from_position, records)
        records = retimed(records, self.position.retimes)
        offset, name, taken = from_position - 1, b"", 0
        self._waiting = waiting
        try:
            for offset, time_ms, name, args, db, event_id, session in records:
                taken += 1
                if offset in skips:
                    applied.skipped += 1
                elif 0 <= time_ms <= TIME_MS_MAX:
                    if time_ms > self._clock_ms:  # noqa: PLR1730 - a call of max costs 0.1 us here
                        self._clock_ms = time_ms
                    try:
                        if session is None:
                            reply = self._apply_one(offset, name, args, db, event_id, applied)
                        else:
                            reply = self._apply_in_session(session, offset, name, args, db, event_id, applied)
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
                raise damaged(error) from error
            if error is self._tx.staging.failure:
                raise
            raise PartitionStoppedError(offset, name, error) from error
        applied.records = taken
        self._next_offset = applied.next_offset = max(offset + 1, to_position if taken == len(records) else 0)
        return applied

    def evaluate(self, spec: Spec, args: list[bytes], db: int, wall_ms: int = 0, at_ms: int = 0) -> Reply:
        """The reply of a reading command whose arity, keys and database were checked: the hot path of a server's reads.

        Args:
            spec: the command.
            args: what follows its name.
            db: the logical database.
            wall_ms: what a wall clock says: where it is ahead, what is `by_wall` follows it. 0: do not ask.
            at_ms: evaluate at this time instead of the partition's clock.

        Raises:
            DueError: a key of it dies between the partition's clock and `wall_ms`. CommandError: its own error.
        """
        if self.is_held:
            raise errors.MachineHeldError
        tx = self._tx
        self._reads += 1  # stands for an offset: what a read draws is another one each time
        now_ms = wall_ms if (ahead := wall_ms > self._clock_ms) and spec.by_wall else at_ms or self._clock_ms
        tx.begin(_READS_FROM + self._reads, now_ms, db)
        reply = spec.handler(tx, args)
        if ahead and tx.is_due(None if spec.patterns else spec.keys(args), self._clock_ms, wall_ms):
            raise DueError
        if self.is_settled and tx.is_crowded():
            tx.reset(written=True)  # nothing is pending: what reads have loaded need not stay
        return reply

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
        self._placement.check_home(spec, args, db)
        self._tx.begin(self._next_offset, self._clock_ms, db)
        try:
            return spec.handler(self._tx, args)
        finally:
            if self.is_settled:
                self._tx.reset(written=True)  # nothing is pending: what a read loaded need not stay

    def begin_cleaning(self) -> Transaction:
        """The transaction, for changes that no reply and no digest shows; `commit(None)` or `rollback` must follow.

        Raises:
            ValueError: the machine is not settled.
        """
        if self.is_held:
            raise errors.MachineHeldError
        if not self.is_settled:
            raise ValueError(f"records up to offset {self._next_offset} are not committed: clean after the commit")
        self._tx.begin(self._next_offset, self._clock_ms, 0)
        return self._tx

    def commit(self, fingerprint: bytes | None) -> None:
        """Write everything applied since the last commit as one batch, with position and clock.

        Args:
            fingerprint: the log's mark of the last data record applied.

        Raises:
            StoreBusyError, InvariantError: nothing was written; call again, or roll back after the second.
            Exception: the store's own; whether the batch was written is unknown, so this machine is done for.
        """
        if self.is_held:
            raise errors.MachineHeldError
        changes = self._tx.changes()
        self.has_changed = changes.has_any(self.layout.families.values())
        position = Position(
            next_offset=self._next_offset,
            clock_ms=self._clock_ms,
            last_version=self._tx.last_version,
            rules=self._tx.rules,
            fingerprint=fingerprint or self.position.fingerprint,
            counts=dict(self._tx.counts),
            skips=self.position.skips,
            stored_dbs=self._tx.stored_dbs,
            set_backs=self._dedup.set_backs,
            retimes=self.position.retimes,
        )
        if self._fresh:
            write_home(changes, self.home)
        write_position(changes, position, self.position)
        self._dedup.add_to(changes)
        self._store.write(changes)
        self.notes.update(notes_in(changes))
        self._fresh, self.position = False, position
        self._tx.reset(written=True)
        self._dedup.reset()

    def rollback(self) -> None:
        """Forget everything since the last commit."""
        if self.is_held:
            raise errors.MachineHeldError
        position = self.position
        self._next_offset, self._clock_ms = position.next_offset, position.clock_ms
        self._tx.stored_dbs = position.stored_dbs
        self._tx.reset(written=False)
        self._tx.counts = dict(position.counts)
        self._tx.last_version = position.last_version
        self._tx.rules = position.rules
        self._dedup.reset()
        self._dedup.set_backs = position.set_backs
        self._choose_path()

    # ------------------------------------------------------------------ one record

    def _apply_one(
        self, offset: int, name: bytes, args: list[Any], db: int, event_id: bytes | None, applied: Applied
    ) -> Reply:
        """Hot path: one call per record, plain attributes, no object per record (profile: docs/performance.md)."""
        spec = SPECS.get(name)
        if spec is None:
            return self._apply_unusual(offset, name, args, db, event_id, applied)
        if not spec.arguments_min <= len(args) <= spec.arguments_max:
            spec.check_arity(args)
        tx = self._tx
        if spec.guarded or db or self._clustered:
            self._placement.check_event(spec, args, db, tx.session)
        tx.begin(offset, self._clock_ms, db)
        if event_id is not None:
            first = self._dedup.outcome(event_id, self._clock_ms)
            if first is not None:
                applied.duplicates += 1
                return first[0]
        applied.commands[name] += 1
        try:
            reply = spec.handler(tx, args) if self._plain else self._run_watched(spec, args, offset, applied)
        except CommandError as error:
            reply = applied.reject(offset, spec.name, error)
        except ClockSetBackError as wanted:
            set_back(tx, self._store, self._dedup, wanted.to_ms)
            self._clock_ms, reply = wanted.to_ms, OK
        if event_id is not None:
            self._dedup.remember(event_id, self._clock_ms, offset, reply)
        return reply

    def _run_watched(self, spec: Spec, args: list[bytes], offset: int, applied: Applied) -> Reply:
        """Run a command while somebody looks: a watch, a server, or a test whether it fails without a trace."""
        try:
            return run_watched(self._tx, spec, args, offset, applied if self._witnessing else None, verify=self._verify)
        finally:
            self._choose_path()  # the last watch may be gone

    def _run(self, spec: Spec, args: list[bytes], offset: int, applied: Applied, replies: TransactionReplies) -> Reply:
        """One command of a transaction."""
        applied.commands[spec.name] += 1
        try:
            if self._tx.written_bytes > EXEC_VALUE_BYTES_MAX:
                raise CommandError(EXEC_TOO_LARGE)  # noqa: TRY301 - a refusal like any other
            replies.check(write=spec.write)
            return spec.handler(self._tx, args) if self._plain else self._run_watched(spec, args, offset, applied)
        except CommandError as error:
            return applied.reject(offset, spec.name, error)

    def _apply_unusual(
        self, offset: int, name: bytes, args: list[Any], db: int, event_id: bytes | None, applied: Applied
    ) -> Reply:
        """A transaction, a name in another case, or nothing that can be applied."""
        if not name:
            raise EventError(args[0].decode(errors="backslashreplace"))
        upper = name.upper()
        if upper != b"EXEC":
            return self._apply_one(offset, find(upper).name, args, db, event_id, applied)
        steps = self._placement.check_transaction(args, db)
        tx = self._tx
        tx.begin(offset, self._clock_ms, db)
        first = None if event_id is None else self._dedup.outcome(event_id, self._clock_ms)
        if first is not None:
            applied.duplicates += 1
            return first[0]
        if tx.session is not None and not end_watches(tx, tx.session):
            return self._remember(event_id, offset, NIL_ARRAY)
        wanted = event_id is not None or offset in self._waiting
        replies = TransactionReplies()
        for number, (spec, step) in enumerate(steps):
            if spec.write or wanted:  # a read that nobody waits for would cost its reply's memory for nothing
                tx.draws = number * _DRAWS_OF_A_STEP
                replies.add(self._run(spec, step, offset, applied, replies), write=spec.write)
        return self._remember(event_id, offset, replies.kept)

    def _remember(self, event_id: bytes | None, offset: int, reply: Reply) -> Reply:
        """The reply, kept for a second delivery if the event has an id."""
        if event_id is not None:
            self._dedup.remember(event_id, self._clock_ms, offset, reply)
        return reply

    def _apply_in_session(self, session: bytes, *record: Any) -> Reply:
        """A record that names a session: WATCH, UNWATCH, or the EXEC that depends on what the session watches."""
        if len(session) != SESSION_BYTES:
            raise EventError(f"a session of {len(session)} bytes, not {SESSION_BYTES}")
        self._tx.session = session
        try:
            return self._apply_one(*record)
        finally:
            self._tx.session = None
            self._choose_path()
