"""Holds a log against heads of its hash chain that were noted earlier."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from ops.progress import progress
from ops.state.chain.kept_heads import Head
from ops.state.chain.walking import Chain, marks
from ops.state.log_records import records_between
from slotlog.log.hash_chain import first_head

if TYPE_CHECKING:
    from slotlog.log import Log


class Keeper(IntEnum):
    """The keeper of a head; the higher, the harder it is to change it together with the log."""

    DATA = 0
    SNAPSHOT = 1
    GIVEN = 2


class Known(NamedTuple):
    """A head that was noted earlier."""

    offset: int
    head: bytes
    keeper: Keeper


class Range(NamedTuple):
    """Offsets among which a record is another one than it was. `keeper` has kept the head that says so."""

    begin: int
    end: int
    keeper: Keeper


class Checked(NamedTuple):
    """The result for one partition.

    Attributes:
        partition: its number.
        begin: the first offset whose record was looked at; None: where the chain would begin nobody knows.
        end: the log's end.
        head: the head there, as it is now; None: nothing was looked at.
        compared: how many heads were compared.
        changed: where the log is not what it was.
        lost: offsets of heads that lie after the log's end.
        uncompared: offsets of given heads with which nothing could be compared, as no head before them is known.
        found: further heads, for who keeps them; none, where the chain begins with a given head that no other confirms.
    """

    partition: int
    begin: int | None
    end: int
    head: bytes | None
    compared: int
    changed: Sequence[Range]
    lost: Sequence[int]
    uncompared: Sequence[int]
    found: Sequence[Head] = ()

    @property
    def is_right(self) -> bool:
        """Whether nothing speaks against the log."""
        return not self.changed and not self.lost


class _NotedChain:
    """The chain as one keeper has noted its heads.

    Args:
        start: where it begins.
        noted: the heads, ascending, none of them before the start; at least one.

    Attributes:
        changed: where the log is not what they say.
    """

    def __init__(self, start: Head, noted: Sequence[Known]) -> None:
        self._heads: dict[int, list[bytes]] = {}
        for each in noted:
            self._heads.setdefault(each.offset, []).append(each.head)
        self.chain = Chain(start, self._heads, {offset: some[0] for offset, some in self._heads.items()})
        self.changed: list[Range] = []
        self._keeper = noted[0].keeper
        self._good = start.offset

    def compare(self, found: Iterable[Head]) -> None:
        """Hold heads of the log against those that were noted."""
        for offset, head in found:
            if any(head != each for each in self._heads[offset]):
                # At the start it covers what is gone.
                self.changed.append(Range(self._good if self._good < offset else 0, offset, self._keeper))
            self._good = offset


async def check_chain(log: Log, partition: int, known: Sequence[Known]) -> Checked:
    """Compute the chain of a partition anew from the log, and compare it with heads that were noted earlier.

    Where the log does not have its first records any more, it begins with the first head that is known, from the keeper
    whose heads are the easiest to change: so the others are compared with it.

    Behind a head that differs each keeper's chain goes on from what it has noted, so that each further change is found
    as well. What one keeper has noted after the start says nothing about what another has.

    Raises:
        As `Reader.fetch`.
    """
    begin, end = await log.begin_offset(partition), await log.end_offset(partition)
    lost = sorted({each.offset for each in known if each.offset > end})
    there = sorted((each for each in known if begin <= each.offset <= end), key=lambda each: (each.offset, each.keeper))
    gone = {each.offset for each in known if each.offset < begin and each.keeper is Keeper.GIVEN}
    seed = there.pop(0) if begin and there else None
    if begin and seed is None:
        return Checked(partition, None, end, None, 0, (), lost, sorted(gone))
    start = Head(0, first_head(partition)) if seed is None else Head(seed.offset, seed.head)
    chain = Chain(start, sorted({start.offset, *marks(start.offset, end), end}))
    by_keeper = [[each for each in there if each.keeper is keeper] for keeper in Keeper]
    chains = [_NotedChain(start, noted) for noted in by_keeper if noted]
    found: list[Head] = []
    with progress("chain", end - start.offset, "offsets") as advance:
        async for records in records_between(log, partition, start.offset, end):
            found += chain.take(records)
            for each in chains:
                each.compare(each.chain.take(records))
            if records:
                advance(records[-1][0] + 1 - start.offset)
        found += chain.end()
        for each in chains:
            each.compare(each.chain.end())
    changed = sorted(one for each in chains for one in each.changed)
    if seed is not None and seed.keeper is Keeper.GIVEN and not there:
        gone.add(seed.offset)
        found = []
    return Checked(partition, start.offset, end, chain.head, len(there), changed, lost, sorted(gone), found)
