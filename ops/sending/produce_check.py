"""Checks a file of events without sending any: counts those that could be sent, explains the others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from ops.config import Settings
from ops.progress import Advance
from ops.sending.event_input import EventParser, InputError, InputEvent, JsonLines, parser_for
from ops.sending.produce import entries_of, pieces_of
from ops.state.clocks.guard import bound_clock

FAULTS_SHOWN_MAX: Final = 20


@dataclass(slots=True)
class CheckedInput:
    """The results of a check.

    Attributes:
        events: that could be sent.
        faults: how many could not.
        first_faults: the first of these, at most `FAULTS_SHOWN_MAX`, as sentences.
    """

    events: int = 0
    faults: int = 0
    first_faults: list[str] = field(default_factory=list)
    _last_number: int = 0

    def note(self, unit: str, error: InputError) -> None:
        """One that could not. A line that is too long is met again with each of its pieces, and counts once."""
        if error.number == self._last_number:
            return
        self._last_number = error.number
        self.faults += 1
        if len(self.first_faults) < FAULTS_SHOWN_MAX:
            self.first_faults.append(f"{unit} {error.number}: {error}")


async def check(settings: Settings, fd: int, format_name: str, advance: Advance) -> CheckedInput:
    """Judge every event that `fd` gives, as `produce` would, to its end. The log is not opened.

    Each line of JSON Lines is judged. A msgpack stream has no such seams: behind bytes that are no event nothing more
    can be told.

    Args:
        settings: the kind of log, and its number of partitions.
        fd: a file, pipe or terminal, open for reading.
        format_name: json, msgpack, or auto.
        advance: told how many bytes of the input are looked through.
    """
    bound_clock(settings)
    checked = CheckedInput()
    parser: EventParser | None = None
    done = 0
    async for data in pieces_of(fd):
        parser = parser or parser_for(format_name, data)
        for part in data.splitlines(keepends=True) if isinstance(parser, JsonLines) else [data]:
            if not _judge(parser.feed(part), parser.unit, settings, checked):
                return checked
        done += len(data)
        advance(done)
    if parser is not None:
        _judge(parser.end(), parser.unit, settings, checked)
    return checked


def _judge(events: Iterator[InputEvent], unit: str, settings: Settings, checked: CheckedInput) -> bool:
    """Judge some events; whether the input can be read on."""
    try:
        for event in events:
            try:
                entries_of(event, settings.log_url, settings.partitions)
            except InputError as error:
                checked.note(unit, error)
            else:
                checked.events += 1
    except InputError as error:
        checked.note(unit, error)
        return unit == JsonLines.unit
    return True
