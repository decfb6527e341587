"""Items of a write pipeline: writes on their way to log and state, and reads behind them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from msgpack import Packer

from engine.apply.script_calls import ScriptDenial
from engine.commands.registry import Spec
from engine.values.replies import Reply
from ingest.applying.ticker import TICK
from slotlog.log import Entry, Headers, LogRecord, RecordPosition

ITEM_BYTES: Final = 400  # of an item that waits, beside its event
NOTHING_WRITTEN: Final = "ERR nothing was written: "
"""What the answer to a write begins with that is not in the log, and never will be; the reason follows."""

# For the short way of a write. Measured: with the packer kept and no call of Entry.__new__ a session takes a write in
# some 2.1 µs, else in 2.7. A table of the two bytes of each slot takes 0.9 MB and saves 0.05 of it.
pack_arguments: Final[Callable[[list[bytes]], bytes]] = Packer().pack
make_entry: Final[Callable[[tuple[int, bytes, bytes, None, Headers]], Entry]] = partial(tuple.__new__, Entry)


class Item:
    """A write on its way, or a read behind one. Plain slots: a dataclass costs twice as much to make.

    Attributes:
        entry: what goes to the log; None for a read.
        name, args, db, event_id, watch_id: of the event, or of the read.
        spec: the command of a read.
        offset: where the write is in the log, once it was applied.
        session: of the client who waits for the reply; None: no client does.
    """

    __slots__ = ("args", "db", "entry", "event_id", "name", "offset", "size", "spec", "watch_id")
    session: object = None

    def __init__(
        self,
        name: bytes,
        args: list[Any],
        db: int,
        entry: Entry | None = None,
        spec: Spec | None = None,
        event_id: bytes | None = None,
        watch_id: bytes | None = None,
    ) -> None:
        self.name = name
        self.args = args
        self.db = db
        self.entry = entry
        self.spec = spec
        self.event_id = event_id
        self.watch_id = watch_id
        self.offset = -1
        self.size = ITEM_BYTES + (len(entry.value) if entry is not None else 0)

    def begins(self) -> bool:
        """Told that the read is about to be evaluated; False: nobody waits for it any more, so it need not be."""
        return True

    def answer(self, reply: Reply, seconds: float) -> None:
        """Told of the reply, once, and of the time that finding it took; a CommandError is one."""
        raise NotImplementedError

    def answer_run(self, replies: Replies, at: int, seconds: float) -> int:
        """`answer` this item, which is the one at `at`, and those behind it that can be answered together.

        Args:
            replies: items and their replies.
            at: where it is.
            seconds: how long finding each took.

        Returns:
            The place behind the last one that was answered.
        """
        self.answer(replies[at][1], seconds)
        return at + 1

    def was_denied(self, denials: Mapping[ScriptDenial, int]) -> None:
        """Told of what the rights of its user have refused to its script."""

    def lose(self) -> None:
        """Told that `answer` failed."""


Replies = list[tuple[Item, Reply]]
"""Items and their replies, in order."""


class Awaited(Item):
    """A write, or a read behind one, whose reply a coroutine waits for."""

    __slots__ = ("done",)

    def __init__(
        self, name: bytes, args: list[Any], db: int, entry: Entry | None = None, spec: Spec | None = None
    ) -> None:
        super().__init__(name, args, db, entry, spec)
        self.done: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

    def answer(self, reply: Reply, seconds: float) -> None:
        """Hand it on."""
        if not self.done.done():
            self.done.set_result(reply)


class Tick(Item):
    """An event that moves the partition's clock to now.

    Args:
        partition: whose.
        done: called when the clock has moved, or cannot be moved now.
    """

    __slots__ = ("_done",)

    def __init__(self, partition: int, done: Callable[[], None]) -> None:
        super().__init__(b"TICK", [], 0, Entry(partition, None, TICK))
        self._done = done

    def answer(self, reply: Reply, seconds: float) -> None:
        """Hand it on."""
        self._done()


Group = tuple[list[Item], list[RecordPosition]]
"""Items in order, and the positions of the writes among them: no gap between two of these."""


def log_record(item: Item, position: RecordPosition) -> LogRecord:
    """The record as the log would give it."""
    assert item.entry is not None
    return position.offset, position.time_ms, item.entry.key, item.entry.value


def without_gaps(items: list[Item], positions: list[RecordPosition]) -> list[Group]:
    """The items as groups whose offsets follow each other: others may have appended in between."""
    if not positions or positions[-1].offset - positions[0].offset == len(positions) - 1:
        return [(items, positions)]
    groups: list[Group] = [([], [])]
    places = iter(positions)
    for item in items:
        position = next(places) if item.entry is not None else None
        if position is not None and groups[-1][1] and position.offset != groups[-1][1][-1].offset + 1:
            groups.append(([], []))
        groups[-1][0].append(item)
        if position is not None:
            groups[-1][1].append(position)
    return groups
