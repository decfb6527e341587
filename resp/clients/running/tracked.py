"""Commands of a client that tracks keys: what they read and write is noted for its cache."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from engine.values.replies import Reply
from resp.acl.script_denials import script_reader
from resp.catalog.multi_queue import Step
from resp.catalog.plans import CommandKind, Plan
from resp.clients.authorization import note_script_denials
from resp.clients.running.pending_reply import PendingReply

if TYPE_CHECKING:
    from resp.clients.session import Session
    from resp.writes.write_pipeline import WritePipeline
    from slotlog.log import Entry


def note_next_script(session: Session, plan: Plan, pipeline: WritePipeline) -> dict[bytes, None] | None:
    """Note whose script is to run next, if it is one.

    Returns:
        Takes the keys that it reads; None: no script, or nobody caches. As in Redis those count that its commands
        read, and not those that it declares.
    """
    if plan.is_script:
        script_reader.set(partial(note_script_denials, session))
    if not plan.is_script or session.tracking is None or not session.tracking.wants_keys:
        return None
    keys: dict[bytes, None] = {}
    pipeline.machine.scripts.keys_read = keys
    return keys


class TrackedRead(PendingReply):
    """A read behind a write of its connection, whose keys the client may cache."""

    __slots__ = ("_keys", "_keys_of_script", "_pipeline")

    def __init__(
        self, session: Session, pipeline: WritePipeline, plan: Plan, args: list[bytes], command: list[bytes]
    ) -> None:
        super().__init__(session, plan, plan.name, args, command, spec=plan.spec)
        self._pipeline = pipeline
        self._keys = plan.keys(args)
        self._keys_of_script: dict[bytes, None] | None = None

    def begins(self) -> bool:
        """Note where in the log it reads: writes behind it may be applied before it is answered."""
        self.offset = self._pipeline.machine.next_offset
        self._keys_of_script = note_next_script(self.session, self.plan, self._pipeline)
        return super().begins()

    def answer(self, reply: Reply, seconds: float) -> None:
        """Take the reply in, and note its keys."""
        super().answer(reply, seconds)
        if self.offset >= 0:  # else the partition is closed
            keys = self._keys if self._keys_of_script is None else list(self._keys_of_script)
            self.session.server.tracking.read(self.session, self._pipeline.partition, keys, self.offset)


class TrackedWrite(PendingReply):
    """A write of a client that may not want to hear of its own."""

    __slots__ = ()

    def answer(self, reply: Reply, seconds: float) -> None:
        """Take the reply in, and note whose write it is."""
        super().answer(reply, seconds)
        note_write(self.session, self)


def pending_read(
    session: Session, pipeline: WritePipeline, plan: Plan, args: list[bytes], command: list[bytes]
) -> PendingReply:
    """A read that waits in the write pipeline."""
    if session.tracking is not None and session.tracking.wants_keys:
        return TrackedRead(session, pipeline, plan, args, command)
    return PendingReply(session, plan, plan.name, args, command, spec=plan.spec)


def pending_write(
    session: Session,
    plan: Plan,
    args: list[Any],
    command: list[bytes],
    entry: Entry,
    event_id: bytes | None = None,
) -> PendingReply:
    """A write on its way."""
    kind = PendingReply if session.tracking is None else TrackedWrite
    return kind(session, plan, plan.name, args, command, entry, event_id=event_id)


def note_read(session: Session, partition: int, keys: list[bytes], offset: int) -> None:
    """Note keys that were read, if the client may cache what the command at hand reads.

    To be called when the reply has its place in the output, or `Session.owes_reply` says that it has none yet.
    """
    if session.tracking is not None and session.tracking.wants_keys:
        session.server.tracking.read(session, partition, keys, offset)


def note_write(session: Session, pending: PendingReply) -> None:
    """Note whose write it is, before it is told what it has modified."""
    if pending.entry is not None and pending.offset >= 0:
        session.server.tracking.wrote(session, pending.entry.partition, pending.offset)


def note_transaction(session: Session, partition: int, steps: list[Step], offset: int) -> None:
    """Note the keys that an EXEC has read; its event stands at `offset` of the log.

    A key that a later step of it writes was read before that change, any other behind all changes of the event.
    """
    before: dict[bytes, None] = {}
    behind: dict[bytes, None] = {}
    written: dict[bytes, None] = {}
    for step in reversed(steps):
        if step.plan.kind is CommandKind.READ:
            for key in step.keys:
                (before if key in written else behind)[key] = None
        elif step.event is not None:
            written.update(dict.fromkeys(step.keys))
    tracking = session.server.tracking
    tracking.read(session, partition, list(before), offset)
    tracking.read(session, partition, list(behind), offset + 1)
