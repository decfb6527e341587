"""A sorted set whose short ranges the part in C answers, beside a plain model of it."""

from __future__ import annotations

from struct import unpack_from
from typing import Final

from engine.batch.ranks.rank_records import OBJECT_BYTES, RankCounts, RankHolders, Stretches
from engine.native import READS
from tests.engine.native.test_reads import Sender
from tests.engine.native.twins import reader_of

_PLACES: Final = 128
_HEAD: Final = 2 + 2 * _PLACES


def _members_of(piece: bytes, count: int) -> list[bytes]:
    """What engine/native/members.c has packed."""
    places = unpack_from(f"={count}H", piece, 2)
    return [piece[_HEAD + place + 1 : _HEAD + place + 1 + piece[_HEAD + place]] for place in places]


class Ranges:
    """A machine on the part in C with the sorted set "z", what should be in it, and the reads of score keys."""

    def __init__(self) -> None:
        self.send = Sender()
        self.machine = self.send.machine
        self.members: dict[bytes, float] = {}
        self.committed: dict[bytes, float] = {}
        self.read: list[int] = []
        self.holders: RankHolders = self.machine._tx._families.rank_holders
        keys = self.holders.keys

        def noting(start: bytes, end: bytes, most: int) -> list[bytes]:
            self.read.append(most)
            return keys(start, end, most)

        self.holders.keys = noting

    def change(self, *words: str, commit: bool = True) -> None:
        """Apply one command to the machine, and to the model."""
        name, _, *args = words
        members = self.members
        if name == "ZADD":
            members.update((member.encode(), float(score)) for score, member in zip(args[::2], args[1::2], strict=True))
        elif name == "ZINCRBY":
            members[args[1].encode()] = members.get(args[1].encode(), 0.0) + float(args[0])
        elif name == "ZREM":
            for member in args:
                members.pop(member.encode(), None)
        elif name == "ZREMRANGEBYRANK":
            for _, each in self.ordered()[int(args[0]) : int(args[1]) + 1]:
                del members[each]
        elif name == "DEL":
            members.clear()
        self.send(*words, commit=commit)
        if commit:
            self.committed = dict(members)
            assert self.holders.bytes <= self.holders.bytes_max or not self.holders.member_bytes

    def rollback(self) -> None:
        """What was not committed is thrown away."""
        self.machine.rollback()
        self.members = dict(self.committed)

    def ordered(self) -> list[tuple[float, bytes]]:
        """The members as they should stand."""
        return sorted((score, member) for member, score in self.members.items())

    def ask(self, *words: str) -> bool:
        """Whether C answers a range, which is as it should be then. Else Python answers it."""
        if words[0] == "ZRANGE" and len(words) == 4:
            expected = [member for _, member in self.ordered()[int(words[2]) : int(words[3]) + 1]]
        else:
            offset, limit = map(int, words[-2:])
            low, high = (word.removeprefix("(") for word in words[2:4])
            above, below = float(low) + (words[2] != low) / 2, float(high) - (words[3] != high) / 2  # of whole numbers
            found = [member for score, member in self.ordered() if above <= score <= below]
            expected = found[offset : offset + limit]
        command = [word.encode() for word in words]
        parts: list[bytes] = []
        end, hits, _ = reader_of(self.machine)(READS[command[0]], [command], 0, 0, False, parts)
        if not end:
            assert expected == self.machine.read(command[0], command[1:])
            return False
        reply = b"".join([b"*%d\r\n" % len(expected), *(b"$%d\r\n%b\r\n" % (len(each), each) for each in expected)])
        assert (reply, bool(expected)) == (b"".join(parts), bool(hits)), words
        return True

    def ask_until_held(self, *words: str) -> None:
        """First the counts are read, then the members that are returned, then a block; the fourth time nothing."""
        for _ in range(4):
            self.read.clear()
            self.ask(*words)
        assert [] == self.read

    def blocks(self) -> list[tuple[Stretches, int]]:
        """All blocks of all sets that hold something."""
        stretches = [blocks for each in self.holders.sets for blocks in each.blocks.values()]
        return [(blocks, at) for blocks in stretches for at in range(len(blocks.ends))]

    def check(self) -> int:
        """What is in memory is what it should be, and takes what is said. How many blocks have members."""
        taken = held = 0
        for blocks, at in self.blocks():
            assert len(blocks.members) == len(blocks.ends)
            piece = blocks.members[at]
            if piece is not None:
                assert blocks.scores[at] is not None or not isinstance(piece, bytes)
            if isinstance(piece, bytes):
                held += 1
                taken += len(piece) + OBJECT_BYTES
        assert taken == self.holders.member_bytes
        scored = sum(blocks.scores[at] is not None for blocks, at in self.blocks())
        assert scored == sum(each.scores for each in self.holders.sets)
        assert self.holders.scored in (scored, self.holders.scored_max + 1)
        key = self.machine._tx.find(b"z")
        if key is not None and key.ranks is not None and key.ranks.groups is not None:
            self._check_order(key.ranks)
        return held

    def _check_order(self, ranks: RankCounts) -> None:
        ordered, before = [member for _, member in self.ordered()], 0
        assert ranks.groups is not None
        for group, count in zip(ranks.groups.ends, ranks.groups.counts, strict=True):
            at = before
            before += count
            blocks = ranks.blocks.get(group)
            for piece, size in () if blocks is None else zip(blocks.members, blocks.counts, strict=True):
                if isinstance(piece, bytes):
                    assert ordered[at : at + size] == _members_of(piece, size)
                at += size
