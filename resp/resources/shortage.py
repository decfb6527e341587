"""`maxmemory`: refuses commands that may need more memory while the process holds more.

As in Redis with the policy `noeviction`, the only one here: nothing that the log holds may go by itself. What counts is
what INFO calls `used_memory`, the whole process with RocksDB's caches; it is looked at ten times a second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from engine import errors
from engine.errors import CommandError
from resp.resources.memory import memory_use

if TYPE_CHECKING:
    from resp.catalog.multi_queue import Queue
    from resp.catalog.plans import Plan
    from resp.settings.config import Config

OUT_OF_MEMORY: Final = CommandError(errors.OUT_OF_MEMORY)


class Shortage:
    """Checks whether the process uses more memory than `maxmemory`.

    Args:
        config: has the limit.
        changed: called when `is_on` has changed.

    Attributes:
        is_on: it did when it was looked at last.
    """

    def __init__(self, config: Config, changed: Callable[[], None]) -> None:
        self.is_on = False
        self._config = config
        self._changed = changed
        config.on_change("maxmemory", self._compare)

    def look(self) -> None:
        """Compare what the process holds with what it may."""
        self._compare(self._config["maxmemory"])

    def _compare(self, limit: int) -> None:
        is_on = limit > 0 and memory_use().rss_bytes > limit
        if is_on != self.is_on:
            self.is_on = is_on
            self._changed()

    def refuses(self, plan: Plan, queue: Queue | None) -> bool:
        """Whether the command cannot run while it is on: it may need more memory, and to be queued takes some."""
        if queue is None or (plan.server is not None and not plan.server.queued):
            steps = queue.steps if queue is not None and plan.name == b"EXEC" else ()
            return any(map(_grows, (plan, *(step.plan for step in steps))))
        return True


def _grows(plan: Plan) -> bool:
    if plan.server is not None:
        return "denyoom" in plan.server.flags
    return plan.spec is not None and plan.spec.grows
