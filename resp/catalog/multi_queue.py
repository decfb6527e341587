"""The commands that MULTI queues, until EXEC runs them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Final

from engine.errors import CommandError
from engine.values.replies import Reply
from resp.catalog.plans import Plan
from slotlog.shared.limits import RECORD_BYTES_MAX

STEP_BYTES: Final = 400  # of a queued command, beside its words
_QUEUED_BYTES_MAX: Final = 4 * RECORD_BYTES_MAX


class Step:
    """One queued command.

    Attributes:
        plan, command: as it was sent.
        event: what of it stands in the EXEC event; None when it runs on the server.
        error: its own, in a cluster, where it says wrongly where its keys are: it has none then, and is in no event.
        shape: makes the reply of what is in the event the reply of the command.
    """

    __slots__ = ("command", "error", "event", "plan", "shape")

    def __init__(self, plan: Plan, command: list[bytes], error: CommandError | None = None) -> None:
        self.plan = plan
        self.command = command
        self.shape: Callable[[Reply], Reply] = _same
        self.error = error
        self.event: list[bytes] | None = None
        if error is not None:
            return
        if plan.spec is not None and not plan.spec.physical:
            self.event = [plan.name, *self.args]
        elif plan.server is not None and plan.server.as_event is not None:
            with contextlib.suppress(CommandError):  # the handler has the same words, in its turn
                self.event, self.shape = plan.server.as_event(command[1:])

    @property
    def args(self) -> list[bytes]:
        """The arguments after the name, or after that of the subcommand."""
        return self.command[2:] if b"|" in self.plan.name else self.command[1:]

    @property
    def keys(self) -> list[bytes]:
        """Its keys."""
        return self.plan.keys(self.args) if self.error is None else []

    @property
    def is_served(self) -> bool:
        """Whether it runs on the server; SELECT does so beside its part in the event."""
        return self.event is None or self.plan.name == b"SELECT"


class Queue:
    """An open MULTI.

    Attributes:
        steps: in order.
        dirty: a command was refused, so EXEC will be.
        size: bytes of the queued commands in memory, about.
    """

    __slots__ = ("dirty", "size", "steps")

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.dirty = False
        self.size = 0

    def add(self, plan: Plan, command: list[bytes], error: CommandError | None = None) -> None:
        """Queue a command that was checked; `error` as in `Step`. One that is too much aborts, and is not kept."""
        self.size += STEP_BYTES + sum(map(len, command))
        if self.size > _QUEUED_BYTES_MAX:
            self.dirty = True
        else:
            self.steps.append(Step(plan, command, error))


def _same(reply: Reply) -> Reply:
    return reply
