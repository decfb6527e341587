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
        lost: offsets of heads that lie behind the log's end.
        found: further heads, for who keeps them.
    """

    partition: int
    begin: int | None
    end: int
    head: bytes | None
    compared: int
    changed: Sequence[Range]
    lost: Sequence[int]
    found: Sequence[Head] = ()

    @property
    def is_right(self) -> bool:
        """Whether nothing speaks against the log."""
        return not self.changed and not self.lost


class _NotedChain:
    """The chain as one keeper has noted its heads.

    Args:
        start: where it begins.
        noted: the heads, ascending, none of them before the start.
        more: further offsets whose heads are wanted.

    Attributes:
        found: the heads at those.
    """

    def __init__(self, start: Head, noted: Sequence[Known], more: Iterable[int]) -> None:
        self._heads: dict[int, list[bytes]] = {}
        for each in noted:
            self._heads.setdefault(each.offset, []).append(each.head)
        offsets = sorted({*self._heads, *more})
        self.chain = Chain(start, offsets, {offset: some[0] for offset, some in self._heads.items()})
        self.found: list[Head] = []
        self.begin = start.offset
        self.changed: list[Range] = []
        self._keeper = noted[0].keeper if noted else Keeper.DATA
        self._good = start.offset

    def compare(self, found: Iterable[Head]) -> None:
        """Hold heads of the log against those that were noted."""
        for offset, head in found:
            if offset not in self._heads:
                self.found.append(Head(offset, head))
                continue
            if any(head != each for each in self._heads[offset]):
                self.changed.append(Range(self._good, offset, self._keeper))
            self._good = offset


async def check_chain(log: Log, partition: int, known: Sequence[Known]) -> Checked:
    """Compute the chain of a partition anew from the log, and compare it with heads that were noted earlier.

    Behind a head that differs the chain goes on from what was noted, so that each further change is found as well. What
    one keeper has noted says nothing about what another has.

    Raises:
        As `Reader.fetch`.
    """
    begin, end = await log.begin_offset(partition), await log.end_offset(partition)
    lost = sorted({each.offset for each in known if each.offset > end})
    there = [each for each in known if begin <= each.offset <= end]
    chains = _chains(partition, begin, end, there)
    if not chains:
        return Checked(partition, None, end, None, 0, (), lost)
    first = min(each.begin for each in chains)
    with progress("chain", end - first, "offsets") as advance:
        async for records in records_between(log, partition, first, end):
            for each in chains:
                each.compare(each.chain.take([record for record in records if record[0] >= each.begin]))
            if records:
                advance(records[-1][0] + 1 - first)
        for each in chains:
            each.compare(each.chain.end())
    changed = sorted(one for each in chains for one in each.changed)
    return Checked(partition, first, end, chains[-1].chain.head, len(there), changed, lost, chains[-1].found)


def _chains(partition: int, begin: int, end: int, known: Sequence[Known]) -> list[_NotedChain]:
    """One for each keeper that has heads; the most trusted one is the last, and has the heads that will be kept."""
    root = None if begin else Head(0, first_head(partition))
    noted = [some for keeper in Keeper if (some := sorted(each for each in known if each.keeper is keeper))]
    if not noted and root is not None:
        noted = [[]]
    starts = [root or Head(some[0].offset, some[0].head) for some in noted]
    more = [()] * (len(noted) - 1) + [(*marks(starts[-1].offset, end), end)] if noted else []
    return [_NotedChain(*each) for each in zip(starts, noted, more, strict=True)]
