"""Shows which rules partitions follow, and moves a log on to newer ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from engine.tables.system import RULES
from ops.config import ConfigError, Settings
from ops.state.clocks.guard import bound_clock
from ops.state.opening.directories import reading
from slotlog.clock import now_ms
from slotlog.events import encode
from slotlog.log import Entry, open_log


class Followed(NamedTuple):
    """The rules that the state of a partition follows at its position."""

    partition: int
    rules: int
    next_offset: int


class Moved(NamedTuple):
    """The event that moves a partition on."""

    partition: int
    offset: int


def rules_of(settings: Settings, partitions: Sequence[int]) -> list[Followed]:
    """What the states of some partitions follow.

    Raises:
        As `reading`.
    """
    found = []
    for partition in partitions:
        with reading(settings, partition) as (_, machine):
            position = machine.position
            found.append(Followed(partition, position.rules, position.next_offset))
    return found


async def move_on(settings: Settings, number: int) -> list[Moved]:
    """Append the event that asks for rules to every partition of the log, all at once.

    Raises:
        ConfigError: this slotlog does not know these rules.
        LogMismatchError, LogUnavailableError, AppendUncertainError: as `Log.append`.
    """
    if not 1 <= number <= RULES:
        raise ConfigError(f"rules {number} are not known to this slotlog, which knows 1 to {RULES}")
    bound_clock(settings)
    log = open_log(
        settings.log_url, topic=settings.topic, partitions=settings.partitions, kafka=settings.kafka, create=False
    )
    await log.start()
    try:
        event, time_ms = encode("RULES", [number]), now_ms()
        entries = [Entry(partition, None, event, time_ms) for partition in range(settings.partitions)]
        return [Moved(each.partition, each.offset) for each in await log.append(entries)]
    finally:
        await log.close()
