"""Runs Lua code up to its limits, and what becomes of a script that meets one.

It leaves nothing behind: everything since the last commit is thrown away. The records before it are applied again and
committed, then its own, with that error as the outcome. How much memory a script needs depends on what its runtime
holds of others: it is tried once more in a runtime of its own before the limit of memory decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from engine.errors import CommandError, ScriptAgainError
from engine.scripts.host import ScriptLimitError
from engine.scripts.runtime import ScriptRuntime

LIMITED_MAX: Final = 8
"""Scripts of one EXEC that may meet a limit, as its other steps run once more for each; later ones are not run."""

_TOO_MANY: Final = f"ERR the script was not run: {LIMITED_MAX} scripts of its transaction have met a limit"

Step = tuple[int, int]
"""An event's script: the offset of its record, and how many draws were made in it before."""

T = TypeVar("T")
Run = Callable[[ScriptRuntime], T]


class ScriptRuns:
    """The Lua runtime of one partition, and which scripts have met a limit since the last commit."""

    def __init__(self) -> None:
        self._shared: ScriptRuntime | None = None
        self._outcomes: dict[Step, CommandError | None] = {}

    @property
    def runtime(self) -> ScriptRuntime:
        """The one that scripts share."""
        if self._shared is None:
            self._shared = ScriptRuntime()
        return self._shared

    @property
    def memory_bytes(self) -> int:
        """What Lua has allocated; 0 before the first script."""
        return 0 if self._shared is None else self._shared.memory_bytes

    def read(self, run: Run[T]) -> T:
        """Run what changes nothing, so it can be run again at once.

        Raises:
            CommandError: it has met a limit.
        """
        try:
            return run(self.runtime)
        except ScriptLimitError as limit:
            error = CommandError(limit.message)
            if not limit.memory:
                raise error from limit
        try:
            return run(ScriptRuntime(fresh=True))
        except ScriptLimitError as limit:
            raise CommandError(limit.message) from error

    def event(self, step: Step, run: Run[T]) -> T:
        """Run the script of an event.

        Raises:
            CommandError: it has met a limit when it was applied before.
            ScriptAgainError: it meets one now: what is not committed has to be applied again.
        """
        again = step in self._outcomes
        outcome = self._outcomes.get(step)
        if outcome is not None:
            raise outcome
        if self._outcomes and self._limited_before(step) >= LIMITED_MAX:
            raise CommandError(_TOO_MANY)
        try:
            return run(ScriptRuntime(fresh=True) if again else self.runtime)
        except ScriptLimitError as limit:
            self._outcomes[step] = None if limit.memory and not again else CommandError(limit.message)
            raise ScriptAgainError(step[0]) from limit

    def forget(self, next_offset: int) -> None:
        """Forget how scripts before `next_offset` have met their limits: they are committed, and not applied again."""
        if self._outcomes:
            self._outcomes = {step: outcome for step, outcome in self._outcomes.items() if step[0] >= next_offset}

    def _limited_before(self, step: Step) -> int:
        """How many scripts of its record have met a limit, of those that stand before this one."""
        first = (step[0], 0)
        return sum(first <= other < step for other, outcome in self._outcomes.items() if outcome is not None)
