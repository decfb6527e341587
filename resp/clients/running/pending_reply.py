"""Keeps the place of each reply that is not there yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from engine.apply.script_calls import ScriptDenial
from engine.commands.registry import Spec
from engine.errors import CommandError
from engine.values.replies import OK, Reply
from resp.acl.script_denials import script_reader
from resp.catalog.plans import Plan
from resp.clients.authorization import note_script_denials
from resp.wire.encode import encode2, encode3
from resp.writes.groups import BROKEN
from resp.writes.items import ITEM_BYTES, Item, Replies
from slotlog.log import Entry

if TYPE_CHECKING:
    from resp.clients.session import Session

_LARGE_BYTES: Final = 256 * 1024


class PendingReply(Item):
    """A command of a session that is on its way, and the place of its reply.

    Attributes:
        data: the encoded reply, once it is there.
        command: as the client has sent it; empty for what no client has sent.
    """

    __slots__ = ("_muted", "command", "data", "plan", "session")
    session: Session

    def __init__(
        self,
        session: Session,
        plan: Plan,
        name: bytes,
        args: list[Any],
        command: list[bytes],
        entry: Entry | None = None,
        spec: Spec | None = None,
        event_id: bytes | None = None,
        watch_id: bytes | None = None,
    ) -> None:
        # Item's attributes too: measured, the call of its __init__ costs as much as setting them.
        self.name = name
        self.args = args
        self.db = session.db
        self.entry = entry
        self.spec = spec
        self.event_id = event_id
        self.watch_id = watch_id
        self.offset = -1
        self.size = ITEM_BYTES if entry is None else ITEM_BYTES + len(entry.value)
        self.data: bytes | None = None
        self.plan = plan
        self.session = session
        self.command = command
        self._muted = session.muted

    def answer(self, reply: Reply, seconds: float) -> None:
        """Take the reply in; it leaves when the lot that it belongs to is done.

        The hot path of a write: `fill` is written out.
        """
        session = self.session
        server = session.server
        entry = self.entry
        if entry is not None and self.offset >= 0:  # else it reads, or failed before it was applied
            session.last_position = entry.partition, self.offset
        if reply.__class__ is CommandError:
            reply = reply.as_sent(self.command)
        self.data = data = b"" if self._muted else session.encode(reply)
        output = session.output
        output.pending_reply_bytes += len(data)
        if output.pending_reply_bytes > _LARGE_BYTES:
            output.swell(len(data))
        server.ready[session] = None
        server.accounting.ended(session, self.plan, self.command, reply, seconds)

    def answer_run(self, replies: Replies, at: int, seconds: float) -> int:
        """`answer` the writes of one plan at once, in C, while their replies are as usual."""
        server, plan = self.session.server, self.plan
        if server.hot is not None and server.accounting.takes_writes(seconds):
            end = server.hot.answer_writes(replies, at, OK, encode2, encode3, server.ready, _LARGE_BYTES)
            if end > at:
                server.accounting.ended_writes(plan, end - at, seconds)
                return int(end)
        self.answer(replies[at][1], seconds)
        return at + 1

    def begins(self) -> bool:
        """Whether its session is still there to be answered. A script makes it hear of refusals."""
        if self.plan.is_script:
            script_reader.set(self.was_denied)
        return not self.session.closing

    def was_denied(self, denials: Mapping[ScriptDenial, int]) -> None:
        """Note in `ACL LOG` what its script was refused."""
        note_script_denials(self.session, denials)

    def lose(self) -> None:
        """Say that the reply was lost."""
        self.fill(BROKEN)

    def fill(self, reply: Reply) -> None:
        """The reply is this one."""
        self.data = b"" if self._muted else self.session.encode(reply)
        self.session.output.pending_reply_bytes += len(self.data)
        self.session.server.ready[self.session] = None
