"""A blocked client: the keys that it waits for, and its pop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from engine.commands.registry import SPECS, Spec
from engine.errors import CommandError
from engine.model import STREAM
from engine.values.replies import Reply
from resp.writes.groups import BROKEN
from resp.writes.items import Awaited
from resp.writes.stopping import MOVED_AWAY
from slotlog.log import Entry
from slotlog.shared.slots import slot

if TYPE_CHECKING:
    from resp.acl import User
    from resp.catalog.plans import Plan
    from resp.settings.startup import Address
    from resp.writes.write_pipeline import WritePipeline


class NoLongerAllowedError(CommandError):
    """The rights that a blocked client had when it came are gone: its command counts as refused."""


class BlockingClient(Protocol):
    """A client that may wait.

    Attributes:
        blocked: what it waits for now.
        closing: its connection is being closed.
        db: the database that it has chosen.
        last_position: partition and offset of its last write.
        served_plan, served_command: the command that it waits with.
        user: who is logged in.
        waited_seconds: how long it has done nothing but wait.
    """

    blocked: Waiter | None
    closing: bool
    db: int
    last_position: tuple[int, int] | None
    served_plan: Plan | None
    served_command: list[bytes]
    user: User
    waited_seconds: float

    @property
    def is_finished(self) -> bool:
        """Whether it sends nothing more."""
        ...

    def kill(self) -> None:
        """Close its connection now."""
        ...


Place = tuple[int, int, bytes]
"""(partition, logical database, key)."""


@dataclass(slots=True)
class Wish:
    """The keys and conditions of a blocking command.

    Attributes:
        type: LIST, ZSET or STREAM: what the keys must hold.
        keys: in order of preference.
        event: name and arguments of the event that pops, from the first key that has elements.
        shape: the event's outcome -> what the client is answered; None or NIL_ARRAY when nothing was popped.
        wanted: how many elements it takes at most.
        destination: of a move.
        group: of XREADGROUP.
    """

    type: int
    keys: list[bytes]
    event: list[bytes]
    shape: Callable[[Reply], Reply]
    wanted: int = 1
    destination: bytes | None = None
    group: bytes | None = None

    @property
    def writes(self) -> bool:
        """Whether it takes anything: XREAD only looks."""
        return self.type != STREAM or self.group is not None


@dataclass(slots=True, eq=False)
class Waiter:
    """One client that waits.

    Attributes:
        session, pipeline, db: whose, and where.
        wish: for what.
        entry: of the event that pops; None of what only reads.
        timeout_s: how long it waits; 0 for ever.
        denial: says why its user may not run the command, and notes that.
        done: the reply, once there is one.
        popping: the pop that is under way for it.
        places: where it waits, one for each key.
        missed: one of its keys was modified while a pop was under way.
        unblocked: CLIENT UNBLOCK came, or its partition went: its reply if the pop under way finds nothing.
    """

    session: BlockingClient
    pipeline: WritePipeline
    db: int
    wish: Wish
    entry: Entry | None
    timeout_s: float
    denial: Callable[[], CommandError | None]
    done: asyncio.Future[Reply]
    popping: Pop | None = None
    places: list[Place] = field(default_factory=list)
    missed: bool = False
    unblocked: Reply = None

    @property
    def is_free(self) -> bool:
        """Whether a pop may be sent for it."""
        return self.popping is None and not self.done.done() and not self.session.closing

    @property
    def is_denied(self) -> bool:
        """Whether its user has lost the right to the command or to a key since it came."""
        session = self.session
        if session.served_plan is None or session.user.unrestricted:
            return False
        return session.user.denial(session.served_plan.name, session.served_command[1:], self.db) is not None

    def refusal(self) -> CommandError | None:
        """Why it may not pop, counted and noted; None: it may again."""
        denial = self.denial()
        return None if denial is None else NoLongerAllowedError(denial.message)

    def seen(self, length: Reply) -> Reply:
        """What it is answered, as it may not pop, where there are so many elements; None when it goes on waiting."""
        return self.refusal() if isinstance(length, int) and length else None

    def answer(self, reply: Reply) -> None:
        """A pop is done: the reply to the client, None where it found nothing."""
        if reply is None:
            reply = self.unblocked
        if reply is not None and not self.done.done():
            self.done.set_result(reply)

    def send_on(self, owner: Address | None) -> None:
        """Its partition is another worker's now: say so, or once a pop that is under way for it has found nothing."""
        if owner is None:
            error = CommandError(f"{MOVED_AWAY}; nothing was taken")
        else:
            error = CommandError(f"MOVED {slot(self.wish.keys[0])} {owner[0]}:{owner[1]}")
        self.unblocked = error
        if self.popping is None:
            self.answer(None)

    def end(self) -> None:
        """The worker ends: say so, unless a pop is under way for it."""
        refusal = self.pipeline.refusal(write=True)
        if refusal is not None and self.popping is None and not self.done.done():
            self.done.set_result(refusal)


class Pop(Awaited):
    """A pop under way for a waiting client; for one without the right to pop, a look at the elements.

    Attributes:
        place: what it was sent for.
        early: it was sent with the write that is to fill that place.
        wanted: how many elements it takes at most; a look takes none.
        is_look: it looks only.
    """

    __slots__ = ("_done", "early", "is_look", "place", "waiter", "wanted")

    def __init__(
        self,
        waiter: Waiter,
        place: Place,
        done: Callable[[Pop, Reply], None],
        *,
        early: bool,
        length: Spec | None = None,
    ) -> None:
        if length is not None:
            super().__init__(length.name, [place[2]], waiter.db, spec=length)
            self.wanted = 0
        else:
            name, *args = waiter.wish.event
            spec = None if waiter.entry is not None else SPECS[name]
            super().__init__(name, args, waiter.db, waiter.entry, spec)
            self.wanted = waiter.wish.wanted
        self.is_look = length is not None
        self._done = done
        self.waiter = waiter
        self.place = place
        self.early = early

    def answer(self, reply: Reply, seconds: float) -> None:
        """Its outcome."""
        self._done(self, reply)
        super().answer(reply, seconds)

    def lose(self) -> None:
        """Note that the pop is lost: its client still needs an answer."""
        self.waiter.popping = None
        if not self.waiter.done.done():
            self.waiter.done.set_result(BROKEN)
        super().answer(BROKEN, 0.0)
