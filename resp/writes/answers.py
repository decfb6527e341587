"""Answers the items of one owned partition: commands that wait in its write pipeline."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import structlog
from greenlet import GreenletExit

from engine.apply.records import Applied
from engine.apply.script_calls import ScriptDenial
from engine.errors import CommandError
from engine.values.replies import Reply
from ingest.applying.partitions.owned_partition import OwnedPartition
from resp.writes.groups import BROKEN
from resp.writes.items import ITEM_BYTES, Item, Replies
from slotlog.clock import ReadClock
from slotlog.shared.errors import EventError

PENDING_EVENTS_MAX: Final = 50_000
PENDING_BYTES_MAX: Final = 64 * 1024 * 1024

logger = structlog.get_logger(__name__)


class Answers:
    """Counts the items that wait, evaluates the reads among them, and hands each its reply.

    Args:
        owned: the partition's worker, and how it is.
        delivered: called after each lot of replies, so that they are sent.
        read_clock: what reads go by where it is ahead of the log's clock.

    Attributes:
        pending_events, pending_bytes: of the items that wait; who queues one counts it.
        reads_ended: no read begins any more, as the server ends.
    """

    __slots__ = ("_owned", "_read_clock", "delivered", "pending_bytes", "pending_events", "reads_ended")

    def __init__(self, owned: OwnedPartition, delivered: Callable[[], None], read_clock: ReadClock) -> None:
        self.pending_events = self.pending_bytes = 0
        self.reads_ended = False
        self.delivered = delivered
        self._owned, self._read_clock = owned, read_clock

    @property
    def crowded(self) -> bool:
        """Whether so much waits that clients should be held."""
        return self.pending_events > PENDING_EVENTS_MAX or self.pending_bytes > PENDING_BYTES_MAX

    @property
    def free_events(self) -> int:
        """How many more may wait before it is crowded, and the one that makes it so."""
        return PENDING_EVENTS_MAX + 1 - self.pending_events

    @property
    def free_bytes(self) -> int:
        """Likewise of bytes: below 0 it is crowded."""
        return PENDING_BYTES_MAX - self.pending_bytes

    def hand_out(self, replies: Replies, seconds: float) -> int:
        """Give each item its reply, and its share of `seconds`; `delivered` must follow.

        Returns:
            How many bytes their events have together.
        """
        at, count = 0, len(replies)
        share = seconds / (count or 1)
        while at < count:
            item = replies[at][0]
            try:
                at = item.answer_run(replies, at, share)
            except Exception:  # a bug of ours: the others have to be answered all the same
                logger.exception("answer_failed", command=item.name)
                item.lose()
                at += 1
        size = sum([item.size for item, _ in replies])
        self.pending_bytes -= size
        self.pending_events -= len(replies)
        return size - ITEM_BYTES * len(replies)

    def tell_denials(self, replies: Replies, applied: Applied) -> None:
        """Tell each item what the rights of its user have refused to its scripts."""
        if applied.script_calls is None or not applied.script_calls.denials:
            return
        by_offset: defaultdict[int, dict[ScriptDenial, int]] = defaultdict(dict)
        for denial, count in applied.script_calls.denials.items():
            by_offset[denial.offset][denial] = count
        for item, _ in replies:
            if item.entry is not None and item.offset in by_offset:
                item.was_denied(by_offset[item.offset])

    def fail(self, items: Sequence[Item], error: CommandError) -> None:
        """Writes get the error; reads behind them are still possible, and see what is due by the wall clock as gone.

        Where a command is suspended in the partition, those are answered behind it: here nobody can wait.
        """
        gate = self._owned.worker.gate
        if gate.is_held and not self.reads_ended and gate.slices.fiber is None:
            gate.slices.run(self._fail, items, error)
        else:
            self._fail(items, error)

    def _fail(self, items: Sequence[Item], error: CommandError) -> None:
        for item in items:  # one by one, as replies may be large
            self.hand_out([(item, error if item.entry is not None else self._read_anyway(item, error))], 0.0)
            self.delivered()

    def evaluate(self, item: Item, *, by_wall: bool = False) -> Reply:
        """The reply of a read that waited; `by_wall`: what is due by the read clock is gone, whatever the command."""
        spec, owned = item.spec, self._owned
        assert spec is not None
        if not item.begins():
            return None
        at_ms = max(owned.worker.machine.clock_ms, self._read_clock.now_ms()) if by_wall or spec.by_wall else 0
        try:
            return owned.evaluate(spec, item.args, item.db, at_ms=at_ms)
        except CommandError as error:
            return error
        except EventError as error:
            return CommandError(f"ERR {error.reason}")
        except Exception:  # a read changes nothing: it fails alone, and the writes around it go on
            logger.exception("read_failed", command=item.name)
            return BROKEN

    def _read_anyway(self, item: Item, error: CommandError) -> Reply:
        """The reply of a read in a partition that is in trouble."""
        worker = self._owned.worker
        if not self.reads_ended:
            worker.gate.enter()
            if worker.is_open and not self.reads_ended:
                with suppress(GreenletExit):  # the partition is closed while this is suspended
                    return self.evaluate(item, by_wall=True)
        return error
