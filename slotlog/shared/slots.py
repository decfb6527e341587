"""Redis Cluster slots: maps a key to one of 16,384 slots, and a slot to a partition.

Source: https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/ ("Key distribution model").
"""

from __future__ import annotations

import re
from binascii import crc_hqx
from typing import Final

from slotlog.shared.limits import SLOTS

_SLOT_BITS: Final = SLOTS - 1
_WILD: Final = re.compile(rb"[*?[\\]")


def slot(key: bytes) -> int:
    """The slot of `key`: CRC-16/XMODEM of its hash tag, modulo 16,384.

    The tag is what stands between the first `{` and the first `}` after it, when that is not empty; else the whole key.
    """
    start = key.find(b"{")
    if start >= 0:
        end = key.find(b"}", start + 1)
        if end > start + 1:
            key = key[start + 1 : end]
    return crc_hqx(key, 0) & _SLOT_BITS


def pattern_slot(pattern: bytes) -> int | None:
    """The slot of every key that matches a glob `pattern`; None when they may lie in several slots."""
    wild = _WILD.search(pattern)
    start = pattern.find(b"{")
    end = pattern.find(b"}", start + 1)
    if wild is None or 0 <= start < end - 1 < wild.start():
        return slot(pattern)
    return None


def partition_of(key_slot: int, partitions: int) -> int:
    """The partition that holds `key_slot`: contiguous ranges of slots, as Redis Cluster reports them."""
    return key_slot * partitions // SLOTS


def slot_range(partition: int, partitions: int) -> tuple[int, int]:
    """First and last slot of a partition: the inverse of `partition_of`."""
    first = -(-partition * SLOTS // partitions)
    last = -(-(partition + 1) * SLOTS // partitions) - 1
    return first, last
