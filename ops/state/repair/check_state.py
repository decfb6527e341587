"""Checks a state for damage, also beside a running service."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.errors import CorruptionError
from engine.proof.audit import Audit, Violation
from engine.tables.system import Position, open_position
from ops.config import Settings
from ops.progress import progress
from ops.state.opening.directories import home_of, reading_store


@dataclass(frozen=True, slots=True)
class CheckedState:
    """The result for one partition; `position` is None if the state cannot say it."""

    partition: int
    position: Position | None
    keys: int
    violations: int


def check_partition(settings: Settings, partition: int, say: Callable[[Violation], None]) -> CheckedState:
    """Look through the state of one partition as of now, with progress; `say` is called with each violation.

    Raises:
        ConfigError: there is no state of that partition, or a replay into it never finished.
        StateMismatchError: the state is of something else.
        CorruptionError: it is so damaged that it cannot be opened.
    """
    home = home_of(settings, partition)
    with reading_store(settings, partition) as store:
        try:
            position = open_position(store, home)
        except (CorruptionError, ValueError):  # which the audit finds too
            position = None
        violations = 0
        total = None if position is None else sum(position.counts.values())
        with progress("check", total, "keys") as advance:
            audit = Audit(store, home, advance)
            for violation in audit.violations():
                violations += 1
                say(violation)
        return CheckedState(partition, position, audit.keys, violations)
