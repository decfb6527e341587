"""Lists dead letters for an operator and sends them again after a mend.

A letter is sent as the bytes that it was, as a new record: with the time of now, from which a relative time to live
counts. An event without an `id` is given one that is derived from its position and bytes: of two redrives at the same
moment one is applied, and a copy that is in the log is known again, marked (`ingest.dead_letters.finding`) or not.

Before anything is sent, a letter passes the check of the producer and that of the worker, the latter on a machine with
an empty state: what can never be applied does not depend on the state.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final, NamedTuple

from msgpack import packb

from engine.apply.machine import Machine
from engine.errors import PartitionStoppedError
from engine.layouts import LAYOUTS
from engine.layouts.records import column_families
from engine.store.memory import MemoryStore
from ingest.dead_letters.dead_letter import TRUNCATED, DeadLetter
from ingest.dead_letters.finding import open_search
from ingest.dead_letters.found import Again, DeadLetterSearch, Found, Wanted, Went
from ingest.dead_letters.stores import open_dead_letters
from ops.config import ConfigError, Settings
from ops.dead_letters.overtaken import Place, Resendable, keys_of_event, look_behind
from ops.state.opening.directories import home_of
from slotlog.clock import now_ms
from slotlog.errors import CrossSlotError, RecordTooLargeError
from slotlog.events import decode
from slotlog.log import Entry, Log, open_log
from slotlog.log.log import check_entries
from slotlog.producer import prepare_value
from slotlog.shared.errors import EventError

_BATCH_LETTERS_MAX: Final = 500
_BATCH_BYTES_MAX: Final = 4 * 1024 * 1024
_MAP_16: Final = 0xDE
_MAP_32: Final = 0xDF


class RefusedError(Exception):
    """A dead letter that cannot be sent again; the message says why."""


class Done(StrEnum):
    """The results of sending a dead letter again."""

    SENT = "sent"
    WOULD_BE_SENT = "would be sent"
    SENT_BEFORE = "sent before"
    REFUSED = "refused"
    KEPT_BACK = "kept back"


class Outcome(NamedTuple):
    """The result for one dead letter.

    Attributes:
        partition, offset: its position.
        done: what was done.
        target: the partition that it goes to, -1 when that is not known.
        went: where it is now, if it is in the log again.
        reason: why it was refused.
        later: how many events of its keys came into the log after it.
        first_later: the offset of the first of these in `target`; -1 without.
        behind: the offset of an earlier dead letter of the same keys that is not sent; -1 without.
    """

    partition: int
    offset: int
    done: Done
    target: int = -1
    went: Went | None = None
    reason: str = ""
    later: int = 0
    first_later: int = -1
    behind: int = -1


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[tuple[Log, DeadLetterSearch]]:
    """The log of the settings and its dead letters, started; a log that is not there is not created.

    Raises:
        LogUnavailableError, LogMismatchError: it cannot be opened.
    """
    log = open_log(
        settings.log_url, topic=settings.topic, partitions=settings.partitions, kafka=settings.kafka, create=False
    )
    await log.start()
    try:
        dead_letters = open_dead_letters(log)
        await dead_letters.start()
        try:
            yield log, open_search(log, dead_letters)
        finally:
            await dead_letters.close()
    finally:
        await log.close()


async def all_pages(dead_letters: DeadLetterSearch, wanted: Wanted) -> AsyncIterator[list[Found]]:
    """The wanted dead letters in the order of their positions, page by page."""
    after = (-1, -1)
    while page := await dead_letters.page(wanted, after):
        yield page
        after = page[-1].dead_letter.partition, page[-1].dead_letter.offset


# ---------------------------------------------------------------------- one dead letter


def entry_of(dead_letter: DeadLetter, settings: Settings) -> Entry:
    """The record that the dead letter is sent again as.

    Raises:
        RefusedError: it cannot be applied this time either.
    """
    _, _, _, _, _, event_id, session = decode(dead_letter.offset, 0, dead_letter.value)
    if any(name == TRUNCATED for name, _ in dead_letter.headers):
        raise RefusedError("it was too large to be kept: only its first part is here")
    if session is not None:
        raise RefusedError("it depends on what its client's connection was watching, which is over")
    try:
        entries = prepare_value(settings.partitions, dead_letter.value)
        if event_id is None and dead_letter.value is not None:
            entries = prepare_value(settings.partitions, with_id(dead_letter.value, derived_id(dead_letter)))
        entry = next(each for each in entries if len(entries) == 1 or each.partition == dead_letter.partition)
        check_entries([entry], settings.partitions)
    except (EventError, CrossSlotError, RecordTooLargeError) as error:
        raise RefusedError(str(error)) from error
    _try(entry, settings)
    return entry


def _try(entry: Entry, settings: Settings) -> None:
    """What the worker of that partition will say.

    Raises:
        RefusedError: it would become a dead letter again, or stop the partition.
    """
    store = MemoryStore(column_families(LAYOUTS[settings.layout]))
    machine = Machine(store, home_of(settings, entry.partition))
    try:
        applied = machine.apply([decode(0, now_ms(), entry.value)], 0)
    except PartitionStoppedError as error:
        raise RefusedError(f"it would stop its partition: {error.cause}") from error
    if applied.dead_letters:
        raise RefusedError(applied.dead_letters[0][1])


def derived_id(dead_letter: DeadLetter) -> str:
    """The idempotency key of a dead letter without one: always the same for the same dead letter."""
    place = f"{dead_letter.topic}/{dead_letter.partition}/{dead_letter.offset}/".encode()
    return f"redrive-{sha256(place + (dead_letter.value or b'')).hexdigest()[:48]}"


def with_id(value: bytes, event_id: str) -> bytes:
    """The bytes of an event that `decode` takes and that has no id, with one more field behind the others."""
    size = {_MAP_16: 3, _MAP_32: 5}.get(value[0], 1)
    fields = int.from_bytes(value[1:size], "big") if size > 1 else value[0] & 0x0F
    packed: bytes = packb({"id": event_id})
    return bytes((0x80 + fields + 1,)) + value[size:] + packed[1:]


# ---------------------------------------------------------------------- sending again


@dataclass(slots=True)
class _Plan:
    """A letter without its content; `found` when where it went is known by its copy in the log, not by its mark."""

    place: Place
    chosen: bool
    went: Went | None
    mark: Resendable
    refused: str = ""
    found: bool = False
    going: bool = False
    behind: int = -1


async def redrive(
    settings: Settings,
    wanted: Wanted,
    say: Callable[[Outcome], None],
    *,
    dry_run: bool = False,
    out_of_order: bool = False,
) -> None:
    """Send the wanted dead letters again, in the order of their positions.

    Args:
        settings: whose log.
        wanted: which dead letters.
        say: told what became of each, in that order, once it is durable.
        dry_run: only say what would be done.
        out_of_order: also those whose keys have later events in the log.

    Raises:
        ConfigError: there is no such dead letter.
        LogUnavailableError: what was not said to be sent was not, or (AppendUncertainError) may have been. Both can be
            sent again.
    """
    async with opened(settings) as (log, dead_letters):
        plans = {plan.place: plan async for plan in _plans(settings, log, dead_letters, wanted)}
        if not any(plan.chosen for plan in plans.values()):
            raise ConfigError("there is no such dead letter; `slotlog deadletters list` shows those that there are")
        open_plans = [plan for plan in plans.values() if plan.chosen and not plan.went and not plan.refused]
        await look_behind(log, [plan.mark for plan in open_plans], plans.keys())
        for plan in open_plans:
            if plan.mark.copy_at >= 0:
                plan.went = Went(plan.mark.partition, plan.mark.copy_at)
                plan.found = True
            else:
                plan.going = out_of_order or not plan.mark.later
        _note_left_behind(list(plans.values()))
        async for page in all_pages(dead_letters, wanted):
            for batch in _batches(page, plans):
                await _do(batch, plans, settings, dead_letters, say, dry_run=dry_run)


async def _plans(settings: Settings, log: Log, dead_letters: DeadLetterSearch, wanted: Wanted) -> AsyncIterator[_Plan]:
    """All dead letters of the log: those that are not wanted tell what was never applied."""
    async for page in all_pages(dead_letters, Wanted()):
        for dead_letter, went in page:
            yield await _plan(
                dead_letter, went, settings, log, chosen=wanted.has(dead_letter.partition, dead_letter.offset)
            )


async def _plan(dead_letter: DeadLetter, went: Went | None, settings: Settings, log: Log, *, chosen: bool) -> _Plan:
    keys = keys_of_event(decode(dead_letter.offset, 0, dead_letter.value))
    plan = _Plan(
        (dead_letter.partition, dead_letter.offset),
        chosen,
        went,
        Resendable(dead_letter.partition, dead_letter.offset + 1, keys),
    )
    if not chosen or went is not None:
        return plan
    try:
        entry = entry_of(dead_letter, settings)
    except RefusedError as error:
        plan.refused = str(error)
        return plan
    target, event_id = entry.partition, decode(0, 0, entry.value)[5] or b""
    plan.mark.event_id = event_id
    if target != dead_letter.partition:  # it stood in another partition: there only the time tells what came after it
        later = await log.offset_at(target, max(0, dead_letter.time_ms))
        plan.mark = Resendable(target, await log.end_offset(target) if later is None else later, keys, event_id)
    return plan


def _note_left_behind(plans: Sequence[_Plan]) -> None:
    """Note in those that go which earlier dead letter of the same keys does not."""
    behind: dict[Any, int] = {}
    for plan in plans:
        if plan.going:
            plan.behind = max((behind.get((plan.place[0], key), -1) for key in plan.mark.keys), default=-1)
        elif plan.went is None:
            behind.update({(plan.place[0], key): plan.place[1] for key in plan.mark.keys})


def _batches(page: list[Found], plans: dict[Place, _Plan]) -> list[list[Found]]:
    """The page in pieces that one append takes."""
    batches: list[list[Found]] = [[]]
    size = 0
    for found in page:
        place = found.dead_letter.partition, found.dead_letter.offset
        if place not in plans:  # it came while the others were judged
            continue
        size += len(found.dead_letter.value or b"")
        if batches[-1] and (len(batches[-1]) == _BATCH_LETTERS_MAX or size > _BATCH_BYTES_MAX):
            batches.append([])
            size = len(found.dead_letter.value or b"")
        batches[-1].append(found)
    return batches


async def _do(
    batch: list[Found],
    plans: dict[Place, _Plan],
    settings: Settings,
    dead_letters: DeadLetterSearch,
    say: Callable[[Outcome], None],
    *,
    dry_run: bool,
) -> None:
    """Send what goes of one batch, then say what became of all of it."""
    known = [plans[dead_letter.partition, dead_letter.offset] for dead_letter, _ in batch]
    going = [
        Again(dead_letter, entry_of(dead_letter, settings))
        for (dead_letter, _), plan in zip(batch, known, strict=True)
        if plan.going and not dry_run
    ]
    sent = iter(await dead_letters.send(going) if going else [])
    if not dry_run:
        await dead_letters.mark(
            [
                (dead_letter, plan.went)
                for (dead_letter, _), plan in zip(batch, known, strict=True)
                if plan.found and plan.went
            ]
        )
    for plan in known:
        went = next(sent) if plan.going and not dry_run else plan.went
        say(_outcome(plan, went, dry_run=dry_run))


def _outcome(plan: _Plan, went: Went | None, *, dry_run: bool) -> Outcome:
    partition, offset = plan.place
    mark = plan.mark
    if plan.went is not None:
        return Outcome(partition, offset, Done.SENT_BEFORE, went=plan.went)
    if plan.refused:
        return Outcome(partition, offset, Done.REFUSED, reason=plan.refused)
    done = Done.KEPT_BACK
    if plan.going:
        done = Done.WOULD_BE_SENT if dry_run else Done.SENT_BEFORE if went is None else Done.SENT
    return Outcome(partition, offset, done, mark.partition, went, "", mark.later, mark.first_later, plan.behind)
