"""One client: what it is, how it runs its commands in order, and how it ends.

Replies leave in the order of the commands. A reply that is there at once goes out at once; one that has to wait (a
write, or a read behind one) is pending, and so is everything behind it. A command that needs all earlier ones to be
done, or that takes its time, holds the connection: what was sent behind it stays in the backlog, and nothing more is
read from the socket meanwhile.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Literal, Protocol

import structlog

from engine.errors import CommandError
from engine.values.replies import Reply
from resp.catalog.plans import Plan
from resp.clients.addresses import Endpoint, addresses, is_loopback
from resp.clients.output import Output, Place, to_nobody
from resp.clients.turns import Turns
from resp.wire.encode import encode2, encode3
from resp.wire.protocol import Parser
from resp.wire.server_replies import Push

if TYPE_CHECKING:
    from resp.acl import User
    from resp.blocking.waiters import Waiter
    from resp.catalog.multi_queue import Queue
    from resp.clients.shared import Shared
    from resp.messages.tracker import Tracker

logger = structlog.get_logger(__name__)


class CommandRunner(Protocol):
    """Runs the commands of one session, in order.

    Attributes:
        backlog, backlog_bytes: those that wait for earlier ones.
    """

    backlog: deque[list[bytes]]
    backlog_bytes: int

    @property
    def is_suspended(self) -> bool:
        """Whether a command was left in the middle."""
        ...

    @property
    def is_done(self) -> bool:
        """Whether every command is over, or waits for its pending reply."""
        ...

    def receive(self, commands: list[list[bytes]]) -> None:
        """Run these commands, which have just come, behind those that wait; then send what they have answered."""
        ...

    def resume(self) -> None:
        """Go on with the backlog, if nothing keeps it waiting any more."""
        ...

    def clear(self) -> None:
        """Forget what has not begun."""
        ...


class Session:
    """One client. Its attributes are those of `CLIENT LIST`; `server` is what all clients share.

    Args:
        server: whose client it is.
        transport: the connection's, connected.
        session_id: a number of its own, growing with each connection.
        inbox_of: makes what runs its commands.
        endpoint: the address to which it has come.

    Attributes:
        inbox: runs its commands.
        readonly: it has said READONLY: what it reads may be old.
        output: replies and messages on their way to it.
        turns: let other clients run between its commands.
        authenticated: it has logged in, or needed no password when it came; it stays in when one is asked for later.
        peer: of a worker that has said PEER-HELLO, the id of its node; empty for all others.
        as_of: the moment that its reads are of (SLOTLOG ASOF); None: now.
        plain: whether commands may take the short way.
        transacting: the EXEC under way that ends on the server; later commands wait for it.
        in_exec: how many commands the EXEC has that runs; 0: none does.
        task: finds the reply of a command that takes its time.
        waits: a command is under way whose very task it is to wait, such as BLPOP or WAIT.
        tracking: what its CLIENT TRACKING has asked for; None: it is off.
        served_plan: of the last command that the server ran itself.
        served_command: that command as the client has sent it, while it runs or waits; else empty.
        waited_seconds: how long the command that takes its time has done nothing but wait for others.
    """

    __slots__ = (
        "_ending", "_finished", "address", "as_of", "authenticated", "blocked", "channels", "choked", "choked_since",
        "closing", "created", "db", "encode", "endpoint", "fd", "id", "in_exec", "inbox", "is_loopback",
        "last_active", "last_command", "last_position", "lib_name", "lib_ver", "local_address", "monitoring", "muted",
        "name", "no_evict", "no_touch", "output", "over_soft_limit_since", "parser", "patterns", "peer", "plain",
        "protocol", "query_bytes", "readonly", "received_bytes", "received_commands", "reply_mode", "served_command",
        "served_plan", "server", "shard_channels", "task", "tracking", "transacting", "transaction", "transport",
        "turns", "user", "waited_seconds", "waits", "watch_id", "watched_keys", "watched_partition", "watched_slot",
    )  # fmt: skip

    def __init__(
        self,
        server: Shared[Session],
        transport: asyncio.Transport,
        session_id: int,
        inbox_of: Callable[[Session], CommandRunner],
        *,
        endpoint: Endpoint = Endpoint.MAIN,
    ) -> None:
        self.server = server
        self.endpoint = endpoint
        self.readonly = False
        self.transport = transport
        self.id = session_id
        self.protocol: Literal[2, 3] = 2
        self.encode: Callable[[Reply], bytes] = encode2
        self.db = 0
        self.name = self.peer = b""
        self.lib_name = b""
        self.lib_ver = b""
        self.user: User = server.acl.default_user
        self.authenticated = server.acl.default_user.needs_no_password
        self.address, self.local_address, self.fd = addresses(transport)
        self.is_loopback = is_loopback(transport)
        self.created = self.last_active = monotonic()
        self.last_command = b""
        self.reply_mode: Literal["on", "off", "skip"] = "on"
        self.muted = False
        self.no_evict = self.no_touch = self.monitoring = False
        self.in_exec = 0
        self.blocked: Waiter | None = None
        self.served_plan: Plan | None = None
        self.served_command: list[bytes] = []
        self.transaction: Queue | None = None
        self.watched_partition: int | None = None
        self.watched_slot = 0
        self.watched_keys: dict[tuple[int, bytes], None] = {}
        self.transacting: Place | None = None
        self.waited_seconds = 0.0
        self.watch_id = b""
        self.tracking: Tracker | None = None
        self.channels: dict[bytes, None] = {}
        self.patterns: dict[bytes, None] = {}
        self.shard_channels: dict[bytes, None] = {}
        self.last_position: tuple[int, int] | None = None
        self.query_bytes = self.received_bytes = self.received_commands = 0
        self.closing = self.choked = False
        self.choked_since = 0.0
        self.over_soft_limit_since = 0.0
        self.as_of: bytes | None = None
        self.plain = False
        self.parser = Parser(bulk_bytes_max=server.config["proto-max-bulk-len"])
        self.output = Output(self, transport, server.config, server.stats)
        self.turns = Turns(self, self.output.pending_replies, server.stats)
        self.inbox = inbox_of(self)
        self.task: asyncio.Task[None] | None = None
        self._finished = self.waits = False
        self._ending: CommandError | None = None
        self.refresh()

    # ------------------------------------------------------------------ how it is

    @property
    def at_replica(self) -> bool:
        """Whether it has come to this worker as to a replica, or to one that is nothing else."""
        return self.endpoint is Endpoint.REPLICA or (self.server.is_standby and not self.at_sentinel)

    @property
    def at_sentinel(self) -> bool:
        """Whether it has come to this worker as to a Sentinel."""
        return self.endpoint is Endpoint.SENTINEL

    @property
    def is_subscriber(self) -> bool:
        """Whether it listens to any channel, pattern or shard channel."""
        return bool(self.channels or self.patterns or self.shard_channels)

    @property
    def reads_replicas(self) -> bool:
        """Whether its reads may be answered where partitions are followed; nobody tells there what to invalidate."""
        return self.readonly and self.tracking is None

    @property
    def output_bytes(self) -> int:
        """What waits to be sent to it."""
        return self.output.waiting_bytes

    @property
    def held_bytes(self) -> int:
        """Bytes held for the client: of its input and its output."""
        queued = 0 if self.transaction is None else self.transaction.size
        replies = max(self.output.pending_reply_bytes, 0) + self.output_bytes
        return self.query_bytes + self.inbox.backlog_bytes + queued + replies

    @property
    def is_finished(self) -> bool:
        """Whether it sends nothing more."""
        return self._finished

    @property
    def is_held(self) -> bool:
        """Whether a command that takes its time keeps the later ones waiting."""
        return (
            self.task is not None
            or self.blocked is not None
            or self.transacting is not None
            or self.choked
            or self.turns.resting
            or self.closing
            or self.inbox.is_suspended
        )

    @property
    def owes_reply(self) -> bool:
        """Whether the command at hand is at work, or done, and its reply has no place yet: messages wait for it.

        A client that waits, as in BLPOP, owes nothing until it is served.
        """
        if self.task is None or self.waits:
            is_served = self.blocked is not None and self.blocked.done.done()
            return is_served or self.transacting is not None or self.inbox.is_suspended
        return True

    @property
    def must_log_in(self) -> bool:
        """Whether it is nobody yet. Nobody has to while the default user needs no password, as in Redis."""
        return not (self.authenticated or self.server.acl.default_user.needs_no_password)

    def refresh(self) -> None:
        """Find out anew whether commands may take the short way; after every change of what that depends on."""
        self.plain = (
            not self.must_log_in
            and self.user.unrestricted
            and self.endpoint is not Endpoint.SENTINEL
            and self.transaction is None
            and self.as_of is None
            and self.reply_mode == "on"
            and not self.muted
            and (self.tracking is None or not self.tracking.looks_at_commands)
            and (self.protocol == 3 or not self.is_subscriber)
            and not self.is_held
            and bool(self.server.served)
        )

    def use_protocol(self, protocol: Literal[2, 3]) -> None:
        """Speak RESP2 or RESP3 from the next reply on."""
        self.protocol = protocol
        self.encode = encode2 if protocol == 2 else encode3
        self.refresh()

    # ------------------------------------------------------------------ in

    def resume(self) -> None:
        """Go on with what waits, if nothing keeps it waiting any more."""
        self.inbox.resume()

    # ------------------------------------------------------------------ out

    def answer(self, reply: Reply) -> None:
        """The reply to the command at hand, which is there at once; behind it what the command has pushed to itself."""
        if not self.muted or isinstance(reply, Push):  # CLIENT REPLY hides no push, so no confirmation of SUBSCRIBE
            self.output.add(self.encode(reply))
        if self.output.pushes:
            self.output.add_pushes()

    def send(self, reply: Reply) -> None:
        """Something that is no reply, such as a message of Pub/Sub; it leaves with the next lot, behind its replies."""
        self.output.pushes.append(self.encode(reply))
        self.server.ready[self] = None

    def tell(self, message: Reply) -> None:
        """`send` what must not overtake the reply to an earlier read.

        In a cluster a reply may be there, and wait for another partition's.
        """
        if self.server.clustered and self.output.pending_replies and not self.owes_reply:
            self.output.add(self.encode(message))
            self.server.ready[self] = None
        else:
            self.send(message)

    def flush(self) -> None:
        """Send what is there, in order; then go on with what waited for it."""
        output = self.output
        output.flush()
        if self.inbox.backlog:
            self.inbox.resume()
        if self.closing:
            if not output.pending_replies:
                self.transport.close()
        elif self._finished or self._ending is not None:
            self._end_if_done()

    def choke(self) -> None:
        """It does not read its replies: run nothing more for it, and read nothing more from it, until it does."""
        self.choked = True
        self.choked_since = monotonic()
        self.refresh()

    def unchoke(self) -> None:
        """It reads again: go on with what has waited for that."""
        self.choked = False
        self.refresh()
        self.flush()

    # ------------------------------------------------------------------ the end

    def fail(self, error: CommandError) -> None:
        """What it sent is no command: answer what came before, then this, then close."""
        self._ending = error
        self._end_if_done()

    def finish(self) -> None:
        """It sends nothing more: answer what it has sent, then close.

        What waits for its partition is not done any more: it may have gone elsewhere with it.
        """
        self._finished = True
        if self.blocked is not None or self.waits or self.server.holding.keeps(self):
            self.kill()
        else:
            self._end_if_done()

    def _end_if_done(self) -> None:
        """Close, once everything that was sent is answered."""
        if (
            (self._finished or self._ending is not None)
            and self.inbox.is_done
            and not (self.output.pending_replies or self.task)
        ):
            if self._ending is not None:
                self.output.parts.append(self.encode(self._ending))
                self.server.accounting.refused(None, self._ending)
            self.close("the client ended it" if self._ending is None else self._ending.message)

    def close(self, reason: str) -> None:
        """Close the connection after what was answered is sent."""
        if not self.closing:
            self.closing = True
            self.refresh()
            self.inbox.clear()
            logger.debug("client_closed", client=self.id, reason=reason)
            self.flush()
            if not self.output.pending_replies:
                self.transport.close()

    def kill(self) -> None:
        """Close the connection now; what was not sent is lost."""
        self.closing = True
        self.encode = to_nobody
        self.refresh()
        self.transport.abort()

    def gone(self) -> None:
        """The connection is closed: nobody waits for a reply any more."""
        self.closing = True
        self.encode = to_nobody
        self.inbox.clear()
        self.output.clear()
        if self.task is not None:
            self.task.cancel()
