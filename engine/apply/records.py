"""Records that go into a machine, and their outcomes."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from operator import itemgetter
from typing import Any, Final

from engine.apply.script_calls import ScriptCalls
from engine.errors import CommandError
from engine.values.replies import Reply

Record = tuple[int, int, bytes, list[Any], int, bytes | None, bytes | None]
"""(offset, time_ms, name, args, db, event_id, session); name b"" and args [reason] for a record that cannot be read."""

Modified = tuple[int, int, bytes, list[bytes], int, bytes, int, int, int]
"""(offset, db, command, its arguments, which of its keys, the key, type before, type after, log time): a key that was
modified.

A command inside a transaction stands here by itself. `which` counts the keys that the command names from 0; -1: it is
none of them. A key that is absent or due has the type `engine.model.NONE`.
"""

Emptied = tuple[int, int, bytes, list[bytes]]
"""(offset, db, command, its arguments): one of `EMPTYING` that was applied."""

Published = tuple[int, bytes, bytes, bool]
"""(offset, channel, message, whether it is a shard channel): what a script has published."""

EMPTYING: Final = frozenset({b"FLUSHALL", b"FLUSHDB", b"SWAPDB"})
"""Change whole databases, and keys that no event names."""

_REJECTIONS_KEPT: Final = 16


class Applied:
    """The outcome of one call of `apply`.

    Attributes:
        next_offset: the first record that it did not take; it may leave records over, see `Machine.apply`.
        records: how many it took.
        first_time_ms: the time of the first of them, as the log has it; 0 if there is none.
        outcomes: offset -> reply, for the offsets that somebody waits for.
        dead_letters: (offset, reason), to be stored before the commit.
        rejected_commands: command name -> how many of them were rejected.
        rejections: the first few (offset, command, message), for logs; `rejected` counts all.
        commands: command name -> how many were applied, those of transactions included.
        ran: the names of commands that are still to be added to `commands`: one by one it would cost 0.05 us more.
        modified: the keys that commands changed, in order, while the machine is `witnessing`; not those that FLUSHALL,
            FLUSHDB and SWAPDB take away or bring.
        emptied: what took away or exchanged whole databases, in order, while the machine is `witnessing`.
        script_calls: what the scripts called that somebody waits for; None: nothing.
        published: what scripts have published, in order.
        expired: those of `modified` that were due by their own time to live and still stored, so that no sweep meets
            them (engine/cleaning/sweep.py): (place in `modified`, db, key). They were gone before the command ran: tell
            it before its own event.
        expired_fields: the same of hashes that had fields which were due: (place in `modified`, db, key, whether it was
            dead with them).
        further: place in `modified` -> what else the command has done to that key, by the names of its keyspace events.
    """

    __slots__ = (
        "commands",
        "dead_letters",
        "duplicates",
        "emptied",
        "expired",
        "expired_fields",
        "first_time_ms",
        "further",
        "modified",
        "next_offset",
        "outcomes",
        "published",
        "ran",
        "records",
        "rejected",
        "rejected_commands",
        "rejections",
        "script_calls",
        "skipped",
    )

    def __init__(self, next_offset: int) -> None:
        self.next_offset = next_offset
        self.records = 0
        self.first_time_ms = 0
        self.rejected = 0
        self.duplicates = 0
        self.skipped = 0
        self.outcomes: dict[int, Reply] = {}
        self.dead_letters: list[tuple[int, str]] = []
        self.rejected_commands: dict[bytes, int] = {}
        self.rejections: list[tuple[int, str, str]] = []
        self.commands: defaultdict[bytes, int] = defaultdict(int)
        self.ran: list[bytes] = []
        self.script_calls: ScriptCalls | None = None
        self.published: list[Published] = []
        self.modified: list[Modified] = []
        self.emptied: list[Emptied] = []
        self.expired: list[tuple[int, int, bytes]] = []
        self.expired_fields: list[tuple[int, int, bytes, bool]] = []
        self.further: dict[int, tuple[bytes, ...]] = {}

    def reject(self, offset: int, name: bytes, error: CommandError) -> CommandError:
        """Count and note a command that refused to run; its error is its reply."""
        self.rejected += 1
        self.rejected_commands[name] = self.rejected_commands.get(name, 0) + 1
        if len(self.rejections) < _REJECTIONS_KEPT:
            self.rejections.append((offset, name.decode(), error.message))
        return error

    def since(self, offset: int) -> Applied:
        """The same without what records before `offset` have modified and published; all else counts them, too."""
        gone = bisect_left(self.modified, offset, key=itemgetter(0))
        if not gone and (not self.published or self.published[0][0] >= offset):
            return self
        later = Applied(self.next_offset)
        for name in Applied.__slots__:
            setattr(later, name, getattr(self, name))
        later.modified = self.modified[gone:]
        later.published = [each for each in self.published if each[0] >= offset]
        later.expired = [(place - gone, db, key) for place, db, key in self.expired if place >= gone]
        later.expired_fields = [
            (place - gone, db, key, dead) for place, db, key, dead in self.expired_fields if place >= gone
        ]
        later.further = {place - gone: names for place, names in self.further.items() if place >= gone}
        return later
