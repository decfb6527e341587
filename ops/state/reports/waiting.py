"""Waits until a state has applied what its log has.

The log is asked once where it ends. What an open transaction of a producer keeps from being read belongs to it. Each
state is opened anew, beside its service, until it has come that far.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, sleep
from typing import Final, NamedTuple

from engine.errors import CorruptionError
from ops.config import ConfigError, Settings
from ops.progress import Advance, progress
from ops.state.opening.directories import reading
from ops.state.reports.standing import Ends, log_ends, standing_of

_AGAIN_SECONDS: Final = 0.2


class Waited(NamedTuple):
    """The result for one partition.

    Attributes:
        next_offset: the first record that is not applied; None: the state could not be read.
        end_offset: where the log ended when the wait began; None: it could not be asked.
        missing: what keeps the partition from being up to its log; empty where it is.
    """

    partition: int
    next_offset: int | None
    end_offset: int | None
    missing: str

    @property
    def applied(self) -> int:
        """Offsets that are applied, of those that are waited for."""
        return min(self.next_offset or 0, self.end_offset or 0)


def wait_until_applied(load: Callable[[], Settings], timeout_seconds: float) -> list[Waited]:
    """Wait until every partition that the settings own has applied all that the log had at the beginning.

    A log and states that are not there yet are waited for as well: a service may be about to make them.

    Args:
        load: gives the settings; asked again until the log answers, as they may be learnt from a state.
        timeout_seconds: how long at most; one look is taken in any case.

    Raises:
        ConfigError: a setting is wrong.
        StateMismatchError: a state is of something else.
    """
    deadline = monotonic() + timeout_seconds
    settings = load()
    while (ends := log_ends(settings, settings.owned, written=True)).unknown:
        if monotonic() >= deadline:
            return [Waited(partition, None, None, ends.unknown) for partition in settings.owned]
        sleep(_AGAIN_SECONDS)
        settings = load()
    with progress("waiting", sum(ends.offsets.values()), "offsets") as advance:
        return _wait(settings, ends, deadline, advance)


def _wait(settings: Settings, ends: Ends, deadline: float, advance: Advance) -> list[Waited]:
    waited = {partition: _look(settings, ends, partition) for partition in settings.owned}
    while pending := [partition for partition, each in waited.items() if each.missing]:
        advance(sum(each.applied for each in waited.values()))
        if monotonic() >= deadline:
            break
        sleep(_AGAIN_SECONDS)
        waited |= {partition: _look(settings, ends, partition) for partition in pending}
    return list(waited.values())


def _look(settings: Settings, ends: Ends, partition: int) -> Waited:
    end_offset = ends.offsets[partition]
    try:
        with reading(settings, partition) as (_, machine):
            next_offset = machine.next_offset
    except (ConfigError, CorruptionError, OSError) as error:  # also of one that a service is making at this moment
        return Waited(partition, None, end_offset, str(error))
    standing = standing_of(settings, ends, partition, next_offset)
    return Waited(partition, next_offset, end_offset, standing.text() if next_offset < end_offset else "")
