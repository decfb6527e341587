"""Idempotency keys: the first outcome of an event with an `id`, kept for 24 hours of log time.

    CF dedup   [bucket:4][id]  ->  [time_ms:8][offset:8][kept:1][packed reply]

`bucket` is `time_ms // window`, so that whole buckets can be dropped; a key is looked up in the current one and the one
before. Where the clock was set back, it may also be in the one after: it is found at less than a day from its time, on
either side, so that the same leap of the clock, taken again, applies nothing twice. `kept` is 0 when the reply was too
large to keep; then a second delivery gets an error that says so.

A clock that leaps ahead and is set back (engine/apply/set_back.py) passes by the buckets of the days before. So that
they are still there then, the newest four buckets that hold anything are kept: two that a clock which is wrong for a
day can fill, and the two before them.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from engine.errors import CommandError
from engine.limits import DEDUP_REPLY_BYTES_MAX, DEDUP_WINDOW_MS
from engine.store.store import DEDUP_CF, Changes, Store
from engine.tables.system import SetBacks
from engine.values.encoding import U32, prefix_end
from engine.values.replies import Reply, pack, unpack
from slotlog.shared.errors import InvariantError

BUCKETS_KEPT: Final = 4

CURSOR: Final = b"cursor/dedup"
"""The node-local record that says which buckets are removed."""

HEADER: Final = Struct(">QQB")

NOT_KEPT: Final = CommandError(
    f"DUPLICATE this id was applied before; its reply had over {DEDUP_REPLY_BYTES_MAX} bytes and was not kept"
)


def first_kept(store: Store, start: bytes, now_ms: int, set_backs: SetBacks) -> bytes:
    """What the keys of the first bucket begin with that is kept at `now_ms`; none before `start` are there.

    Buckets that only a wrong clock has filled do not count. The result is the same whether what stands before that of
    an earlier moment was removed or not.
    """
    current = now_ms // DEDUP_WINDOW_MS
    wrong = {from_ms // DEDUP_WINDOW_MS - back for from_ms, _ in set_backs for back in (0, 1)}
    found: list[bytes] = []
    while (record := next(store.scan(DEDUP_CF, start, U32.pack(current + 1)), None)) is not None:
        bucket = record[0][: U32.size]
        if int.from_bytes(bucket) not in wrong:
            found.append(bucket)
        start = prefix_end(bucket)
    return min([U32.pack(max(0, current - 1)), *found[-BUCKETS_KEPT:]])


class Deduplicator:
    """The idempotency keys of one partition, those of the current batch included.

    Attributes:
        set_backs: when the partition's clock was set back, from when and to when.
        get: reads a record.
        new: the records that are not in the store yet. One dict for ever.
        new_at: the offset of a record that the part in C has left to Python, and whose id it has found to be new.
    """

    def __init__(self, store: Store, set_backs: SetBacks = ()) -> None:
        self.set_backs = set_backs
        self.get = store.getter(DEDUP_CF)
        self.new: dict[bytes, bytes | None] = {}
        self.new_at = -1
        self._turn_to(0)

    @property
    def has_new(self) -> bool:
        """Whether there are any that are not in the store yet."""
        return bool(self.new)

    def outcome(self, event_id: bytes, now_ms: int) -> tuple[Reply] | None:
        """The first outcome of `event_id` inside the window, in a tuple of one; None when it is new.

        Hot path of what is new: both places are looked at without a call or an object for it.
        """
        if not self._begin_ms <= now_ms < self._end_ms:
            self._turn_to(now_ms)
        get, found = self.get, None  # called as an attribute it is not specialized
        key = self._current + event_id
        record = self.new.get(key) or get(key)
        if record is not None:
            found = self.judge(record, now_ms)
        if found is None:
            key = self._before + event_id
            record = self.new.get(key) or get(key)
            if record is not None:
                found = self.judge(record, now_ms)
        if found is None and self.set_backs:
            found = self._found(event_id, (now_ms // DEDUP_WINDOW_MS + 1,), now_ms)
            for from_ms, to_ms in reversed(self.set_backs):  # back through them: `now_ms` as the clock before would say
                if found is not None or now_ms - to_ms >= DEDUP_WINDOW_MS:
                    break
                now_ms += from_ms - to_ms
                bucket = from_ms // DEDUP_WINDOW_MS
                found = self._found(event_id, (bucket, bucket - 1), now_ms)
        return found

    def _turn_to(self, now_ms: int) -> None:
        """Note what the keys of this bucket and of the one before begin with: they stay the same for a day."""
        bucket = now_ms // DEDUP_WINDOW_MS
        self._begin_ms, self._end_ms = bucket * DEDUP_WINDOW_MS, (bucket + 1) * DEDUP_WINDOW_MS
        self._current, self._before = U32.pack(bucket), U32.pack(max(0, bucket - 1))

    def _found(self, event_id: bytes, buckets: tuple[int, ...], now_ms: int) -> tuple[Reply] | None:
        """What was recorded in one of `buckets`, less than a day before or after `now_ms`."""
        for candidate in buckets:
            if candidate < 0:
                continue
            key = U32.pack(candidate) + event_id
            record = self.new.get(key) or self.get(key)
            if record is not None and (found := self.judge(record, now_ms)) is not None:
                return found
        return None

    def judge(self, record: bytes, now_ms: int) -> tuple[Reply] | None:
        """The outcome in a record, in a tuple of one; None when it is a day from `now_ms` or more."""
        time_ms, _, kept = HEADER.unpack_from(record)
        if abs(now_ms - time_ms) < DEDUP_WINDOW_MS:
            return (unpack(record[HEADER.size :]) if kept else NOT_KEPT,)
        return None

    def remember(self, event_id: bytes, now_ms: int, offset: int, reply: Reply) -> None:
        """Keep the outcome of an event that was applied or rejected.

        Raises:
            InvariantError: one of this batch is kept, which `outcome` would have found: the event was applied twice.
        """
        packed = pack(reply)
        kept = len(packed) <= DEDUP_REPLY_BYTES_MAX
        if (
            not self._begin_ms <= now_ms < self._end_ms
        ):  # the part in C may have looked for it, or the clock was set back
            self._turn_to(now_ms)
        key = self._current + event_id
        if key in self.new:
            raise InvariantError(f"the id of the event at offset {offset} was applied in this batch already")
        self.new[key] = HEADER.pack(now_ms, offset, kept) + (packed if kept else b"")

    def add_to(self, changes: Changes) -> None:
        """Add the new keys to a batch."""
        if self.new:
            changes.of(DEDUP_CF).update(self.new)

    def reset(self) -> None:
        """Forget what the current batch added."""
        self.new.clear()
        self.new_at = -1
