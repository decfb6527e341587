"""A stream of the plain model: entries and groups as dicts, ids as pairs of numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from engine.values.encoding import pack_u64
from engine.values.stream_records import (
    ConsumerRecord,
    GroupRecord,
    PendingRecord,
    consumer_subkey,
    group_subkey,
    pack_consumer,
    pack_entry,
    pack_group,
    pack_pending,
    pending_subkey,
)

Id = tuple[int, int]

ZERO: Final = (0, 0)
UNKNOWN: Final = -1
_SEQ_MAX: Final = (1 << 64) - 1
_NODE: Final = 100


@dataclass
class Pending:
    """An entry that a consumer has got and not acknowledged."""

    consumer: bytes
    delivered_ms: int
    deliveries: int


@dataclass
class Group:
    """A group. `consumers`: name -> when it was seen, and when it got something, -1 for never."""

    last: Id
    read: int
    consumers: dict[bytes, list[int]] = field(default_factory=dict)
    pending: dict[Id, Pending] = field(default_factory=dict)

    def see(self, consumer: bytes, now_ms: int) -> list[int]:
        """The times of a consumer, who is seen now, new or not."""
        times = self.consumers.setdefault(consumer, [now_ms, -1])
        times[0] = now_ms
        return times

    def needs(self, entry_id: Id) -> bool:
        """Whether it has not done with an entry."""
        return entry_id > self.last or entry_id in self.pending


@dataclass
class Stream:
    """A stream. `entries` are in the order of their ids, as none is ever added below another."""

    entries: dict[Id, list[bytes]] = field(default_factory=dict)
    last: Id = ZERO
    max_deleted: Id = ZERO
    added: int = 0
    groups: dict[bytes, Group] = field(default_factory=dict)

    # ------------------------------------------------------------------ entries

    def add(self, entry_id: Id, texts: list[bytes]) -> None:
        """Append an entry."""
        self.entries[entry_id] = texts
        self.last = entry_id
        self.added += 1

    def delete(self, ids: Sequence[Id]) -> int:
        """XDEL."""
        gone = [entry_id for entry_id in dict.fromkeys(ids) if self.entries.pop(entry_id, None) is not None]
        self.max_deleted = max(self.max_deleted, *gone, ZERO)
        return len(gone)

    def trim(self, words: Sequence[bytes]) -> int:
        """MAXLEN or MINID with what follows; also KEEPREF, DELREF or ACKED."""
        policy = next((word for word in words if word in {b"DELREF", b"ACKED"}), b"KEEPREF")
        at = next(at for at, word in enumerate(words) if word in {b"MAXLEN", b"MINID"})
        threshold = words[at + 2] if words[at + 1] in {b"~", b"="} else words[at + 1]
        limit = int(words[words.index(b"LIMIT") + 1]) if b"LIMIT" in words else 100 * _NODE * (b"~" in words)
        surplus = len(self.entries)
        if words[at] == b"MAXLEN":
            surplus -= int(threshold)
            if b"~" in words:
                surplus -= surplus % _NODE
                surplus = min(surplus, limit - limit % _NODE) if limit else surplus
        kept_from = parse(threshold) if words[at] == b"MINID" else (_SEQ_MAX + 1, 0)
        return self._trim([each for each in self.entries if each < kept_from], surplus, limit, policy)

    def _trim(self, ids: list[Id], surplus: int, limit: int, policy: bytes) -> int:
        gone: list[Id] = []
        is_behind_one_that_stays = False
        for looked_at, entry_id in enumerate(ids):
            if len(gone) >= surplus or (limit and looked_at == limit):
                break
            if policy == b"ACKED" and self.is_needed(entry_id):
                is_behind_one_that_stays = True
                continue
            gone.append(entry_id)
            del self.entries[entry_id]
            if policy == b"DELREF":
                self.forget(entry_id)
            if is_behind_one_that_stays:
                self.max_deleted = max(self.max_deleted, entry_id)
        return len(gone)

    # ------------------------------------------------------------------ references

    def is_needed(self, entry_id: Id) -> bool:
        """Whether a group has not done with an entry."""
        return any(group.needs(entry_id) for group in self.groups.values())

    def forget(self, entry_id: Id) -> None:
        """Take an entry out of what is pending, in all groups."""
        for group in self.groups.values():
            group.pending.pop(entry_id, None)

    def delete_with(self, policy: bytes, entry_id: Id) -> int:
        """XDELEX of one entry: what it replies."""
        if policy == b"DELREF":
            self.forget(entry_id)
        if entry_id not in self.entries:
            return -1
        if policy == b"ACKED" and self.is_needed(entry_id):
            return 2
        return self.delete([entry_id])

    def acknowledge_and_delete(self, name: bytes, policy: bytes, entry_id: Id) -> int:
        """XACKDEL of one entry: what it replies."""
        group = self.groups.get(name)
        if group is None or group.pending.pop(entry_id, None) is None:
            return -1
        if policy == b"ACKED" and self.is_needed(entry_id):
            return 2
        self.delete_with(policy, entry_id)
        return 1

    # ------------------------------------------------------------------ what a group has read

    def read(self, group: Group, entry_id: Id) -> None:
        """Let a group have read an entry, the first one behind its last."""
        is_exact = group.read != UNKNOWN and (
            not self.entries or group.last > self.max_deleted or not any(self.max_deleted)
        )
        if is_exact and group.last >= next(iter(self.entries)):
            group.read += 1
        elif self.added:
            group.read = self._position(entry_id)
        group.last = entry_id

    def _position(self, entry_id: Id) -> int:
        """How many were added up to an entry that is there; -1 where deletions leave it open."""
        if entry_id < self.max_deleted:
            return UNKNOWN
        if entry_id == self.last:
            return self.added
        first = next(iter(self.entries))
        if entry_id == first and (self.max_deleted == ZERO or self.max_deleted < first):
            return self.added - len(self.entries) + 1
        return UNKNOWN

    # ------------------------------------------------------------------ its digest

    def pieces(self) -> Iterator[bytes]:
        """As `engine.proof.walk.LiveKey` gives them."""
        yield from (pack(self.last), pack(self.max_deleted), pack_u64(self.added))
        records = {pack(entry_id): pack_entry(texts) for entry_id, texts in self.entries.items()}
        for name, group in self.groups.items():
            pending = [each.consumer for each in group.pending.values()]
            record = GroupRecord(len(group.consumers), len(pending), pack(group.last), group.read)
            records[group_subkey(name)] = pack_group(record)
            for consumer, times in group.consumers.items():
                packed = pack_consumer(ConsumerRecord(pending.count(consumer), *times))
                records[consumer_subkey(name, consumer)] = packed
            for entry_id, each in group.pending.items():
                of = PendingRecord(each.delivered_ms, each.deliveries, each.consumer)
                records[pending_subkey(name, pack(entry_id))] = pack_pending(of)
        for subkey in sorted(records):
            yield subkey
            yield records[subkey]


def pack(entry_id: Id) -> bytes:
    """An id as it is stored."""
    return pack_u64(entry_id[0]) + pack_u64(entry_id[1])


def parse(text: bytes) -> Id:
    """An id, whole or without its sequence number."""
    ms, _, seq = text.partition(b"-")
    return int(ms), int(seq or b"0")
