"""Idempotency keys: the first outcome of an event with an `id`, kept for 24 hours of log time.

    CF dedup   [bucket:4][id]  ->  [time_ms:8][offset:8][kept:1][packed reply]

`bucket` is `time_ms // window`, so that whole buckets can be dropped; a key is looked up in the current one and the one
before. `kept` is 0 when the reply was too large to keep; then a second delivery gets an error that says so.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from engine.encoding import U32
from engine.errors import CommandError
from engine.limits import DEDUP_REPLY_BYTES_MAX, DEDUP_WINDOW_MS
from engine.replies import Reply, pack, unpack
from engine.store.base import DEDUP_CF, Changes, Store

CURSOR: Final = b"cursor/dedup"
"""The node-local record that says which buckets are removed."""

HEADER: Final = Struct(">QQB")

NOT_KEPT: Final = CommandError(
    f"DUPLICATE this id was applied before; its reply had over {DEDUP_REPLY_BYTES_MAX} bytes and was not kept"
)


def first_bucket(now_ms: int) -> bytes:
    """What the keys of the first bucket begin with that `Deduplicator.outcome` looks at, now or ever after."""
    return U32.pack(max(0, now_ms // DEDUP_WINDOW_MS - 1))


class Deduplicator:
    """The idempotency keys of one partition, those of the current batch included."""

    def __init__(self, store: Store) -> None:
        self._get = store.getter(DEDUP_CF)
        self._new: dict[bytes, bytes | None] = {}

    def outcome(self, event_id: bytes, now_ms: int) -> tuple[Reply] | None:
        """The first outcome of `event_id` inside the window, in a tuple of one; None when it is new."""
        bucket = now_ms // DEDUP_WINDOW_MS
        for candidate in (bucket, bucket - 1):
            if candidate < 0:
                continue
            key = U32.pack(candidate) + event_id
            record = self._new.get(key) or self._get(key)
            if record is None:
                continue
            time_ms, _, kept = HEADER.unpack_from(record)
            if time_ms + DEDUP_WINDOW_MS > now_ms:
                return (unpack(record[HEADER.size :]) if kept else NOT_KEPT,)
        return None

    def remember(self, event_id: bytes, now_ms: int, offset: int, reply: Reply) -> None:
        """Keep the outcome of an event that was applied or rejected."""
        packed = pack(reply)
        kept = len(packed) <= DEDUP_REPLY_BYTES_MAX
        key = U32.pack(now_ms // DEDUP_WINDOW_MS) + event_id
        self._new[key] = HEADER.pack(now_ms, offset, kept) + (packed if kept else b"")

    def add_to(self, changes: Changes) -> None:
        """Add the new keys to a batch."""
        if self._new:
            changes.of(DEDUP_CF).update(self._new)

    def reset(self) -> None:
        """Forget what the current batch added."""
        self._new = {}
