"""Runs the command of one record against the overlay of its batch.

Where somebody looks at what it changes, a session that watches keys or clients that wait for them, what it has modified
is noted and told.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any, Final

import engine.commands  # noqa: F401 - fills the registry
from engine.apply.admission import Placement, Step
from engine.apply.records import EMPTYING, Applied
from engine.apply.scripts import ScriptRunner
from engine.apply.set_back import set_back
from engine.batch.effects import KEY, LAST_FIELD
from engine.batch.transaction import Transaction
from engine.commands.registry import SPECS, Handler, Spec, find
from engine.errors import EXEC_TOO_LARGE, REPLY_TOO_LARGE, ClockSetBackError, CommandError
from engine.limits import EXEC_VALUE_BYTES_MAX, REPLY_BYTES_MAX
from engine.model import NONE
from engine.store.store import Store
from engine.tables.dedup import Deduplicator
from engine.tables.system import Home
from engine.types.generic.sessions import end_watches
from engine.values.replies import NIL_ARRAY, OK, REPLY_ELEMENT_BYTES, Reply, reply_bytes
from slotlog.shared.errors import EventError
from slotlog.shared.limits import SESSION_BYTES

# Each command of a transaction numbers its draws from its own place on: reads among them do not run in every replay.
_DRAWS_OF_A_STEP: Final = 1 << 32


_spec_of: Final = SPECS.get  # a method of an imported name is looked up anew for each call

_SIMPLE: Final = {
    name: (spec.handler, spec.arguments_min, spec.arguments_max)
    for name, spec in SPECS.items()
    if not (spec.guarded or spec.runs_others or spec.internal)
}

NOT_SIMPLE: Final = _SIMPLE[b"GET"][0], 1, 0
"""Stands for a command that is not simple: no number of arguments is right for it."""


class Executor:
    """Runs records of one partition, each at the partition's clock.

    Args:
        tx: what they run against.
        store: behind it.
        home: which partition this is.
        dedup: the idempotency keys.
        clock_ms: where the partition's clock stands.
        verify: after each rejection prove that it changed nothing. Slow.

    Attributes:
        clock_ms: the highest record time seen, moved on by the machine; SETCLOCK alone sets it back.
        waiting: the offsets whose outcome somebody waits for.
        witnessing: whether `Applied.modified` is filled; `choose_path` must follow a change.
        is_plain: commands simply run, as nobody looks at what they change.
        placement: what belongs to the partition.
        scripts: runs scripts.
        simple: handler and number of arguments by name, of the commands that only run, while `is_plain` in a topic of
            one partition: those of an event that is in database 0 and has neither id nor session. For the hot path.
    """

    def __init__(
        self, tx: Transaction, store: Store, home: Home, dedup: Deduplicator, clock_ms: int, *, verify: bool
    ) -> None:
        self.clock_ms = clock_ms
        self.waiting: Container[int] = frozenset()
        self.witnessing = self.is_plain = False
        self.placement = Placement(home, tx.holds)
        self.simple: Mapping[bytes, tuple[Handler, int, int]] = {}
        self.scripts = tx.runner = ScriptRunner(tx, self._run_inner, home)
        self._tx = tx
        self._store = store
        self._dedup = dedup
        self._clustered = home.partitions > 1
        self._verify = verify
        self.choose_path()

    def choose_path(self) -> None:
        """Note whether commands simply run. One attribute, for the hot path."""
        self.is_plain = not (self._verify or self.witnessing or self._tx.watches)
        self.simple = _SIMPLE if self.is_plain and not self._clustered else {}

    def apply(
        self, offset: int, name: bytes, args: list[Any], db: int, event_id: bytes | None, applied: Applied
    ) -> Reply:
        """Apply one record: the hot path, with plain attributes and no object of its own (docs/performance-notes.md).

        The machine has turned the transaction to it, but for the database, which may be none.

        Raises:
            EventError: it can never be applied.
            Exception: a bug of ours, or the store's own.
        """
        spec = _spec_of(name)
        if spec is None:
            if name != b"EXEC" and (upper := name.upper()) != b"EXEC":  # a name in another case, or nothing
                if not name:
                    raise EventError(args[0].decode(errors="backslashreplace"))
                return self.apply(offset, find(upper).name, args, db, event_id, applied)
            steps = self.placement.check_transaction(args, db)
        else:
            if not spec.arguments_min <= len(args) <= spec.arguments_max:
                spec.check_arity(args)
            if spec.guarded or db or self._clustered:
                self.placement.check_event(spec, args, db, self._tx.session)
        tx = self._tx
        if db != tx.db:
            tx.select(db)
        if event_id is not None and self._dedup.new_at != offset:
            first = self._dedup.outcome(event_id, self.clock_ms)
            if first is not None:
                applied.duplicates += 1
                return first[0]
        if spec is None:
            reply: Reply = NIL_ARRAY
            if tx.session is None or end_watches(tx, tx.session):
                reply = []
                self._run_steps(steps, reply, offset, applied, event_id is not None or offset in self.waiting)
        else:
            applied.ran.append(name)
            try:
                if self.is_plain:
                    handler = spec.handler
                    reply = handler(tx, args)
                else:
                    reply = self._run_watched(spec, args, offset, applied)
            except CommandError as error:
                reply = applied.reject(offset, spec.name, error)
            except ClockSetBackError as wanted:
                set_back(tx, self._store, self._dedup, wanted.to_ms)
                self.clock_ms, reply = wanted.to_ms, OK
        if event_id is not None:
            self._dedup.remember(event_id, self.clock_ms, offset, reply)
        return reply

    def apply_in_session(self, session: bytes, *record: Any) -> Reply:
        """Apply a record that names a session: WATCH, UNWATCH, or the EXEC that depends on what the session watches."""
        if len(session) != SESSION_BYTES:
            raise EventError(f"a session of {len(session)} bytes, not {SESSION_BYTES}")
        self._tx.session = session
        try:
            return self.apply(*record)
        finally:
            self._tx.session = None
            self.choose_path()

    def _run_inner(self, spec: Spec, args: list[bytes], applied: Applied) -> Reply:
        """Run one command of a script. Raises CommandError: its own."""
        tx = self._tx
        return spec.handler(tx, args) if self.is_plain else self._run_watched(spec, args, tx.offset, applied)

    def _run_watched(self, spec: Spec, args: list[bytes], offset: int, applied: Applied) -> Reply:
        """Run a command while somebody looks: a watch, a server, or a test whether it fails without a trace.

        Raises:
            CommandError: its own.
            AssertionError: it failed after it had changed something.
        """
        tx = self._tx
        if spec.runs_others:
            return spec.handler(tx, args)
        watched = spec.write and bool(tx.watches)
        if watched:
            tx.watches.age(tx.now_ms)
        before = tx.image() if self._verify else None
        try:
            if watched or (spec.write and self.witnessing):
                return self._run_observed(spec, args, offset, applied if self.witnessing else None)
            return spec.handler(tx, args)
        except CommandError as error:
            if self._verify and tx.image() != before:
                message = f"{spec.name!r} changed something before it failed"
                raise AssertionError(message) from error
            raise
        finally:
            self.choose_path()  # the last watch may be gone

    def _run_observed(self, spec: Spec, args: list[bytes], offset: int, witness: Applied | None) -> Reply:
        """Run a command, break the watches of the keys that it modified, and tell `witness`, if any, which they are."""
        tx = self._tx
        tx.observe()
        try:
            reply = spec.handler(tx, args)
            if witness is not None and spec.name in EMPTYING:
                witness.emptied.append((offset, tx.db, spec.name, args))
            return reply
        finally:
            effects = tx.end_observation()
            if effects:
                if tx.watches:
                    for db, name, before, _, _ in effects:
                        if before == NONE or not spec.keeps_watches:
                            tx.watches.mark((db, name), tx.now_ms)
                if witness is not None:
                    names = spec.keys(args)
                    for db, name, before, after, due in effects:
                        if due == KEY:
                            witness.expired.append((len(witness.modified), db, name))
                        elif due:
                            witness.expired_fields.append((len(witness.modified), db, name, due == LAST_FIELD))
                        further = tx.done_to(name)
                        if further:
                            witness.further[len(witness.modified)] = further
                        which = names.index(name) if name in names else -1
                        witness.modified.append((offset, db, spec.name, args, which, name, before, after, tx.now_ms))

    def _run_steps(self, steps: list[Step], kept: list[Reply], offset: int, applied: Applied, wanted: bool) -> None:
        """Run the commands of a transaction behind those that have run, all of them writes, and add to their replies.

        In one loop, with the sums of `TransactionReplies` in it: a call for each command is dearer.
        """
        tx, ran, draws = self._tx, applied.ran.append, 0
        of_all = of_reads = 0
        if kept:
            steps, draws, of_all = steps[len(kept) :], len(kept) * _DRAWS_OF_A_STEP, sum(map(reply_bytes, kept))
        for spec, step in steps:
            tx.draws = draws
            draws += _DRAWS_OF_A_STEP
            write = spec.write
            if not (write or wanted):  # a read that nobody waits for would cost its reply's memory for nothing
                continue
            ran(spec.name)
            try:
                if tx.written_bytes > EXEC_VALUE_BYTES_MAX:
                    raise CommandError(EXEC_TOO_LARGE)  # noqa: TRY301 - a refusal like any other
                if of_all > REPLY_BYTES_MAX and (not write or of_all - of_reads > REPLY_BYTES_MAX):
                    raise CommandError(REPLY_TOO_LARGE)  # noqa: TRY301 - as above
                if self.is_plain:
                    handler = spec.handler  # called as an attribute it is not specialized
                    reply = handler(tx, step)
                else:
                    reply = self._run_watched(spec, step, offset, applied)
            except CommandError as error:
                reply = applied.reject(offset, spec.name, error)
            of_all += REPLY_ELEMENT_BYTES if reply.__class__ is int else reply_bytes(reply)
            if not write:
                of_reads += reply_bytes(reply)
            kept.append(reply)

    def finish_transaction(self, offset: int, args: list[list[bytes]], kept: list[Reply], applied: Applied) -> None:
        """Run what is left of a transaction of writes, and add the replies: the part in C has begun it.

        Args:
            offset: of its record.
            args: all its commands, each `[name, argument…]`.
            kept: the replies so far.
            applied: counts the commands.
        """
        self._run_steps(self.placement.check_transaction(args, 0), kept, offset, applied, wanted=True)
