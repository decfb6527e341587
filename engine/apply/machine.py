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

from bisect import bisect_right
from collections import Counter
from collections.abc import Container, Sequence
from operator import itemgetter
from typing import Final

from engine import errors
from engine.apply.executor import NOT_SIMPLE
from engine.apply.hot_path import hot_path
from engine.apply.readable import Readable
from engine.apply.records import Applied, Record
from engine.apply.set_back import retimed
from engine.batch.transaction import Transaction
from engine.errors import CommandError, PartitionStoppedError, ScriptAgainError, StoreBusyError
from engine.limits import OVERLAY_BYTES_MAX
from engine.store.failures import damaged
from engine.store.store import Store, is_damage
from engine.tables.adoption import settle
from engine.tables.compaction_notes import notes_in
from engine.tables.system import Home, Position, read_home, write_position
from slotlog.shared.errors import EventError, InvariantError
from slotlog.shared.limits import TIME_MS_MAX

__all__ = ["KEY_CACHE_BYTES", "Applied", "Machine", "Record"]

KEY_CACHE_BYTES: Final = 8 * 1024 * 1024
"""What a partition may hold in memory of keys, elements and rank counts, unless told otherwise."""


class Machine(Readable):
    """One partition; it takes what `Readable` does, and raises as that."""

    def __init__(
        self, store: Store, home: Home, *, verify: bool = False, key_cache_bytes: int = KEY_CACHE_BYTES
    ) -> None:
        super().__init__(store, home, verify=verify, key_cache_bytes=key_cache_bytes)
        self.notes = self._tx.staging.notes  # of deleted ranges, since a reclaimer looked: compaction_notes.py
        self.hot_path = hot_path(self._tx, self._executor, self._dedup, home, OVERLAY_BYTES_MAX)
        self._stored_home = read_home(store)
        self.has_changed = False

    @property
    def witnessing(self) -> bool:
        """Whether `Applied.modified` is filled: for a server whose clients wait for keys. No part of the state."""
        return self._executor.witnessing

    @witnessing.setter
    def witnessing(self, witnessing: bool) -> None:
        self._executor.witnessing = witnessing
        self._executor.choose_path()

    @property
    def is_full(self) -> bool:
        """Whether a commit should come before the next record."""
        return self._tx.value_bytes > OVERLAY_BYTES_MAX

    def clock_behind(self, record: Record) -> int:
        """The clock as `record`, the next one, will leave it, unless it sets it back."""
        position, clock_ms = self.position, self._executor.clock_ms
        if position.skips.end_from(record[0]) != record[0]:
            return clock_ms
        ((_, time_ms, *_),) = retimed((record,), position.retimes)
        return max(clock_ms, time_ms) if 0 <= time_ms <= TIME_MS_MAX else clock_ms

    def move_clock(self, clock_ms: int) -> None:
        """Move the clock to where the next record will move it (`clock_behind`), for a sweep that is to come before."""
        self._executor.clock_ms = max(clock_ms, self._executor.clock_ms)

    def apply(
        self,
        records: Sequence[Record],
        from_offset: int,
        waiting: Container[int] = frozenset(),
        to_offset: int = 0,
    ) -> Applied:
        """Evaluate `records`, which a log gave from offset `from_offset` on, into the overlay.

        Not all of them where the overlay is full, or where a script met a limit: then those before it, so that a commit
        of these comes first and none of them is applied a third time.

        Args:
            records: in offset order; gaps are legal, as Kafka keeps its transaction markers there.
            from_offset: must be `next_offset`, so that nothing is lost or applied twice between two fetches.
            waiting: the offsets whose outcome somebody waits for.
            to_offset: where the log went on after the last of them, when it passed by offsets without a record.

        Raises:
            PartitionStoppedError: a record hit a bug of ours or a newer rule. Everything since the last commit is
                forgotten; apply the records before it again and stop there.
            StoreBusyError, Exception: as `commit`, of a collection that is too large for one batch (batch/staging.py).
            CorruptionError: stored bytes are damaged. Everything since the last commit is forgotten.
        """
        if self.is_held:
            raise errors.MachineHeldError
        self._check_follows(records, from_offset)
        while True:
            try:
                return self._apply(records, from_offset, waiting, to_offset)
            except ScriptAgainError as again:
                if from_offset != self._next_offset:
                    message = "a script is to be tried anew, behind a commit of what stands before its batch"
                    raise StoreBusyError(message) from again
                if before := [record for record in records if record[0] < again.offset]:
                    records, to_offset = before, 0

    def _apply(  # noqa: C901 - the hot path: a call for each record would cost 0.1 us
        self, records: Sequence[Record], from_offset: int, waiting: Container[int], to_offset: int
    ) -> Applied:
        """As `apply`. Raises ScriptAgainError too: everything since the last commit is forgotten, apply it again."""
        applied = Applied(from_offset)
        applied.first_time_ms = records[0][1] if records else 0
        tx, executor, skips = self._tx, self._executor, self.position.skips.within(from_offset, records)
        records = retimed(records, self.position.retimes)
        offset, name = from_offset - 1, b""
        executor.waiting, waits, ran = waiting, bool(waiting), applied.ran.append
        turned_ms: int | None = None  # the time of the record before, where that has left the clock as it found it
        executor.scripts.applied, executor.scripts.waiting = applied, waiting
        run = None if skips or self.hot_path is None else self.hot_path.others(records, applied, waiting)
        try:
            for offset, time_ms, name, args, db, event_id, session in records if run is None else run:
                if skips and offset in skips:
                    applied.skipped += 1
                    continue
                if time_ms != turned_ms:  # of the records of one millisecond the first alone looks at the clock
                    if not 0 <= time_ms <= TIME_MS_MAX:
                        applied.dead_letters.append((offset, f"time {time_ms} is outside 0 … {TIME_MS_MAX} ms"))
                        continue
                    if time_ms > executor.clock_ms:  # noqa: PLR1730 - a call of max costs 0.1 us here
                        executor.clock_ms = time_ms
                    tx.now_ms = executor.clock_ms
                    if run is None:  # else others have run between
                        turned_ms = time_ms
                tx.offset, tx.draws = offset, 0  # with `now_ms` it is `begin`, without the call
                try:
                    handler, least, most = executor.simple.get(name, NOT_SIMPLE)
                    if least <= len(args) <= most and not db and event_id is None and session is None:
                        if tx.db:
                            tx.select(0)
                        ran(name)
                        reply = handler(tx, args)
                    else:
                        tx.written_bytes = 0  # which is for what is not simple
                        if session is None:
                            reply = executor.apply(offset, name, args, db, event_id, applied)
                        else:
                            reply = executor.apply_in_session(session, offset, name, args, db, event_id, applied)
                        if executor.clock_ms != tx.now_ms:  # it was set back
                            turned_ms = None
                except CommandError as error:
                    reply = applied.reject(offset, name, error)
                except EventError as error:
                    applied.dead_letters.append((offset, error.reason))
                    continue
                if waits and offset in waiting:
                    applied.outcomes[offset] = reply
                if tx.value_bytes > OVERLAY_BYTES_MAX:
                    break
        except Exception as error:
            if run is not None:
                offset, name = run.at_hand(offset, name)
            failure = self._give_up(error, offset, name)
            if failure is error:
                raise
            raise failure from error
        finally:
            executor.scripts.applied = None
        if run is not None:
            _, offset = run.end(offset)
        for name, times in Counter(applied.ran).items():
            applied.commands[name] += times
        applied.ran.clear()
        applied.records = taken = bisect_right(records, offset, key=itemgetter(0))
        self._next_offset = applied.next_offset = max(offset + 1, to_offset if taken == len(records) else 0)
        return applied

    def _give_up(self, error: Exception, offset: int, name: bytes) -> Exception:
        """Forget everything since the last commit. Returns what to raise: see `apply`."""
        self.rollback()
        if is_damage(error):  # no fault of the record: skipping it would lose an event
            return damaged(error)
        if error is self._tx.staging.failure or isinstance(error, errors.IndexUnavailableError | ScriptAgainError):
            return error
        return PartitionStoppedError(offset, name, error)

    def _check_follows(self, records: Sequence[Record], from_offset: int) -> None:
        """Refuse records that do not follow what was applied."""
        if from_offset != self._next_offset or (records and records[0][0] < from_offset):
            raise ValueError(f"records from offset {from_offset}, but the next one to apply is {self._next_offset}")
        if records and records[-1][0] - from_offset + 1 < len(records):  # for each record it would cost 0.2 %
            raise InvariantError(f"{len(records)} records from {from_offset} to {records[-1][0]}")

    def begin_cleaning(self) -> Transaction:
        """The transaction, for changes that no reply and no digest shows; `commit(None)` or `rollback` must follow.

        Raises:
            ValueError: the machine is not settled.
        """
        if self.is_held:
            raise errors.MachineHeldError
        if not self.is_settled:
            raise ValueError(f"records up to offset {self._next_offset} are not committed: clean after the commit")
        self._tx.begin(self._next_offset, self._executor.clock_ms, 0)
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
            clock_ms=self._executor.clock_ms,
            last_version=self._tx.last_version,
            rules=self._tx.rules,
            fingerprint=fingerprint or self.position.fingerprint,
            counts=dict(self._tx.counts),
            skips=self.position.skips,
            stored_dbs=self._tx.stored_dbs,
            set_backs=self._dedup.set_backs,
            retimes=self.position.retimes,
        )
        if self._stored_home != self.home:
            settle(changes, self.home, self._stored_home)
        write_position(changes, position, self.position)
        self._dedup.add_to(changes)
        self._store.write(changes)
        self.notes.update(notes_in(changes))
        self._stored_home, self.position = self.home, position
        self._tx.reset(written=True)
        self._dedup.reset()
        self._executor.scripts.forget_outcomes(self._next_offset)

    def rollback(self) -> None:
        """Forget everything since the last commit."""
        if self.is_held:
            raise errors.MachineHeldError
        position = self.position
        self._next_offset, self._executor.clock_ms = position.next_offset, position.clock_ms
        self._tx.stored_dbs = position.stored_dbs
        self._tx.reset(written=False)
        self._tx.counts = dict(position.counts)
        self._tx.last_version = position.last_version
        self._tx.rules = position.rules
        self._dedup.reset()
        self._dedup.set_backs = position.set_backs
        self._executor.choose_path()
