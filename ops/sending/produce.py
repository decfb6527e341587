"""Appends a file of events to the log in order, and counts what is in it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from engine.errors import CorruptionError
from ops.config import Settings
from ops.progress import Advance
from ops.sending.event_input import EventParser, InputError, InputEvent, parser_for
from ops.sending.target import APPEND_BYTES_MAX, APPEND_ENTRIES_MAX, Target, opened_target
from slotlog.clock import WALL
from slotlog.errors import AppendUncertainError, CrossSlotError, LogMismatchError, LogUnavailableError, TimeAheadError
from slotlog.log import Entry, Log, embedded_path
from slotlog.producer import prepare
from slotlog.shared.errors import EventError

_READ_BYTES: Final = 256 * 1024


@dataclass(slots=True)
class Span:
    """The offsets of appended records in one partition. Other producers' records may lie between them."""

    records: int
    first_offset: int
    last_offset: int


@dataclass(slots=True)
class Produced:
    """The progress through the input. `failure` says why it ended early; it is empty otherwise.

    `events` counts events, a span's `records` what became of them: an event without a key goes to every partition.
    `later_times` counts records that got a later time than their events ask for.
    """

    events: int = 0
    spans: dict[int, Span] = field(default_factory=dict)
    later_times: int = 0
    failure: str = ""


@dataclass(slots=True)
class _Batch:
    """What goes out in one append: the entries of the events from `first` to `last`."""

    first: int
    last: int = 0
    events: int = 0
    value_bytes: int = 0
    entries: list[Entry] = field(default_factory=list)

    def takes(self, entries: list[Entry]) -> bool:
        """Whether there is room for one more event."""
        value_bytes = self.value_bytes + sum(len(entry.value) for entry in entries)
        fits = len(self.entries) + len(entries) <= APPEND_ENTRIES_MAX and value_bytes <= APPEND_BYTES_MAX
        return not self.entries or fits

    def add(self, number: int, entries: list[Entry]) -> None:
        """Take one event."""
        self.last = number
        self.events += 1
        self.value_bytes += sum(len(entry.value) for entry in entries)
        self.entries += entries


async def produce(settings: Settings, fd: int, format_name: str, advance: Advance, produced: Produced) -> None:
    """Append every event that `fd` gives, until its end or the first one that cannot be sent.

    Args:
        settings: the log.
        fd: a file, pipe or terminal, open for reading.
        format_name: json, msgpack, or auto.
        advance: told how many bytes of the input are dealt with.
        produced: kept up to date, so that it is right even after an interruption.

    Raises:
        ConfigError, LogMismatchError, LogUnavailableError, ValueError: the log cannot be opened; nothing was sent.
    """
    parser: EventParser | None = None
    done = 0
    async with opened_target(settings) as target:
        try:
            async for data in pieces_of(fd):
                parser = parser or parser_for(format_name, data)
                await _send(target, parser.feed(data), parser.unit, produced)
                done += len(data)
                advance(done)
            if parser is not None:
                await _send(target, parser.end(), parser.unit, produced)
        except _SendError as error:
            produced.failure = str(error)


class _SendError(Exception):
    """The input cannot be sent any further; the message says from where on, and what to do."""


async def pieces_of(fd: int) -> AsyncIterator[bytes]:
    """The input as it comes. Waiting for it blocks nobody: Ctrl-C and the log's connections go on."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    try:
        loop.add_reader(fd, readable.set)
    except PermissionError:  # epoll's word for a file: always readable
        while data := os.read(fd, _READ_BYTES):
            yield data
        return
    try:
        while True:
            await readable.wait()
            readable.clear()
            data = os.read(fd, _READ_BYTES)
            if not data:
                return
            yield data
    finally:
        loop.remove_reader(fd)


async def _send(target: Target, events: Iterable[InputEvent], unit: str, produced: Produced) -> None:
    """Append `events` in batches; raises _SendError at the first that cannot be."""
    try:
        for batch in _batches(events, target.log):
            await _append(target, batch, unit, produced)
    except InputError as error:
        raise _SendError(f"{unit} {error.number}: {error}; nothing from there on was sent") from error


async def _append(target: Target, batch: _Batch, unit: str, produced: Produced) -> None:
    place = f"{unit}s {batch.first} to {batch.last}"
    try:
        positions = await target.append(batch.entries)
    except AppendUncertainError as error:
        raise _SendError(
            f"{place} are in the log in part, whole or not at all, and nothing after them was sent: {error}. "
            "Sent again, those without an id may count twice."
        ) from error
    except (LogUnavailableError, LogMismatchError, CorruptionError) as error:
        raise _SendError(f"{place} were not sent, nor anything after them: {error}") from error
    produced.events += batch.events
    for entry, (partition, offset, time_ms) in zip(batch.entries, positions, strict=True):
        produced.later_times += entry.time_ms is not None and time_ms > entry.time_ms
        span = produced.spans.setdefault(partition, Span(0, offset, offset))
        span.records += 1
        span.last_offset = offset


def _batches(events: Iterable[InputEvent], log: Log) -> Iterator[_Batch]:
    """The events as appends. What is good goes out before InputError tells of the first bad one."""
    batch = _Batch(0)
    try:
        for event in events:
            entries = entries_of(event, log.url, log.partitions)
            if not batch.takes(entries):
                yield batch
                batch = _Batch(event.number)
            batch.first = batch.first or event.number
            batch.add(event.number, entries)
    except InputError:
        if batch.entries:
            yield batch
        raise
    if batch.entries:
        yield batch


def entries_of(event: InputEvent, log_url: str, partitions: int) -> list[Entry]:
    """The records of one event: one, or one for each partition when it names no key.

    Raises:
        InputError: it would become a dead letter, or has a time that the log would not keep.
    """
    if event.time_ms is not None and embedded_path(log_url) is None:
        raise InputError(event.number, "time is for the embedded log alone: Kafka's broker gives a record its time")
    try:
        if event.time_ms is not None:
            WALL.refuse_ahead(event.time_ms)
        return prepare(partitions, event.cmd, event.args, id=event.id, db=event.db, time_ms=event.time_ms)
    except (EventError, CrossSlotError, TimeAheadError) as error:
        raise InputError(event.number, str(error)) from error
