"""MULTI, EXEC, DISCARD, WATCH, UNWATCH. Source: https://redis.io/docs/latest/develop/using-commands/transactions/."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

from engine.errors import CommandError
from engine.values.replies import OK, Reply
from resp.catalog.multi_queue import Queue
from resp.clients.running.multi import execute, unwatch
from resp.clients.running.pending_reply import PendingReply
from resp.commands.handlers import server_command
from resp.wire.server_replies import NO_REPLY
from resp.writes.entries import event_entry
from resp.writes.stopping import about_keys
from slotlog.shared.errors import CROSS_SLOT
from slotlog.shared.limits import SESSION_BYTES
from slotlog.shared.slots import slot

if TYPE_CHECKING:
    from resp.clients.session import Session

_FLAGS: Final = ("noscript", "loading", "stale", "fast", "allow_busy")
_CATEGORIES: Final = ("fast", "transaction")


class _PendingWatch(PendingReply):
    """A WATCH that is an event on its way."""

    __slots__ = ()

    def answer(self, reply: Reply, seconds: float) -> None:
        """Note what is watched now, unless an EXEC sent later ends the watch."""
        super().answer(reply, seconds)
        session = self.session
        if reply is OK and session.watched_partition is not None and session.watch_id == self.watch_id:
            session.watched_keys.update(dict.fromkeys((self.db, key) for key in self.args))


@server_command(
    "MULTI",
    group="transactions",
    since="1.2.0",
    flags=_FLAGS,
    categories=_CATEGORIES,
    immediate=True,
    queued=False,
)
def multi(session: Session, args: list[bytes]) -> Reply:
    """Begin a transaction: commands are queued until EXEC. It cannot be nested: that is an error."""
    if session.transaction is not None:
        raise CommandError("ERR MULTI calls can not be nested")
    session.transaction = Queue()
    session.refresh()
    return OK


@server_command(
    "EXEC",
    group="transactions",
    since="1.2.0",
    complexity="depends on the commands",
    flags=("noscript", "loading", "stale", "skip_slowlog"),
    categories=("slow", "transaction"),
    immediate=True,
    queued=False,
    large_reply=True,
    shown_late=True,
    appends=True,
)
def exec_(session: Session, args: list[bytes]) -> Reply:
    """Run the queued commands as one event."""
    if session.transaction is None:
        raise CommandError("ERR EXEC without MULTI")
    return execute(session, session.server.plans.by_name[b"EXEC"])


@server_command(
    "DISCARD",
    group="transactions",
    since="2.0.0",
    complexity="O(commands queued)",
    flags=_FLAGS,
    categories=_CATEGORIES,
    immediate=True,
    queued=False,
)
def discard(session: Session, args: list[bytes]) -> Reply:
    """Discard the queued commands and end the watches."""
    if session.transaction is None:
        raise CommandError("ERR DISCARD without MULTI")
    session.transaction = None
    session.refresh()
    unwatch(session)
    return OK


@server_command(
    "WATCH key [key ...]",
    group="transactions",
    since="2.2.0",
    complexity="O(keys)",
    flags=_FLAGS,
    categories=_CATEGORIES,
    immediate=True,
    queued=False,
    access="RO",
    appends=True,
)
def watch(session: Session, args: list[bytes]) -> Reply:
    """Make the next EXEC do nothing if one of these keys is modified before it. It must come before MULTI."""
    if session.transaction is not None:
        raise CommandError("ERR WATCH inside MULTI is not allowed")
    server = session.server
    pipeline = server.router.pipeline_of(args)
    refusal = pipeline.refusal(write=True)
    if refusal is not None:
        raise about_keys(refusal, server.partitions)
    number = slot(args[0])
    if session.watched_partition is None:
        # A new name for each transaction: one that the log still holds from a crash means nothing to this one.
        session.watch_id = secrets.token_bytes(SESSION_BYTES)
        session.watched_partition, session.watched_slot = pipeline.partition, number
    elif server.clustered and number != session.watched_slot:
        raise CommandError(CROSS_SLOT)
    entry = event_entry(pipeline.partition, b"WATCH", args, args, db=session.db, watch_id=session.watch_id)
    plan, command = server.plans.by_name[b"WATCH"], session.served_command
    pending = _PendingWatch(session, plan, b"WATCH", args, command, entry, watch_id=session.watch_id)
    session.output.pending_replies.append(pending)
    pipeline.submit(pending)
    return NO_REPLY


@server_command("UNWATCH", group="transactions", since="2.2.0", flags=_FLAGS, categories=_CATEGORIES, immediate=True)
def unwatch_(session: Session, args: list[bytes]) -> Reply:
    """End the watches of this connection."""
    unwatch(session)
    return OK
