"""Counts of a stream's entries, so that trimming need not walk what it deletes: records of the kind STREAM_INDEX.

    00 [id:16]  ->  [count:8]     a block: the entries up to this id, and behind the block before it

A block is closed when it has `BLOCK_ENTRIES` entries; those behind the last one are counted in the metadata. So XADD
writes a record of this kind once in so many times. XDEL counts an entry out: one seek. An empty block goes. Where the
layout has no place for the count in its metadata, there are no blocks, and trimming walks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from engine.batch.keys.stream_parts import StreamParts
from engine.batch.transaction import Transaction
from engine.layouts.layout import Form
from engine.values.stream_records import BLOCKS, BLOCKS_END, block_subkey, pack_count, parse_block

BLOCK_ENTRIES: Final = 1024
"""Measured: a walk over so many entries takes about as long as one over the blocks of 10^6 of them, a millisecond."""

_Block = tuple[bytes, int]


def blocks(stream: StreamParts) -> Iterator[_Block]:
    """The last id and the number of entries of each block, the oldest first."""
    return (parse_block(subkey, value) for subkey, value in stream.index.scan(BLOCKS, BLOCKS_END))


def count_in(tx: Transaction, stream: StreamParts, entry_id: bytes) -> None:
    """Count an entry that was appended."""
    if Form.STREAM_COUNTS in tx.forms:
        stream.tail_count += 1
        if stream.tail_count >= BLOCK_ENTRIES:
            stream.index.put(block_subkey(entry_id), pack_count(stream.tail_count))
            stream.tail_count = 0


def count_out(tx: Transaction, stream: StreamParts, entry_id: bytes) -> None:
    """Count an entry out that was deleted."""
    if Form.STREAM_COUNTS not in tx.forms:
        return
    found = next(stream.index.scan(block_subkey(entry_id), BLOCKS_END), None)
    if found is None:
        stream.tail_count -= 1
    else:
        last_id, count = parse_block(*found)
        _put(stream, last_id, count - 1)


def drop(tx: Transaction, stream: StreamParts, whole: Sequence[_Block], behind: bytes, walked: int) -> None:
    """Forget the blocks of which every entry was deleted, and count `walked` entries out of what is behind them.

    Args:
        tx: the transaction.
        stream: which one.
        whole: the oldest blocks.
        behind: all deleted entries are below it.
        walked: how many were deleted behind those blocks.
    """
    if Form.STREAM_COUNTS not in tx.forms:
        return
    for last_id, _ in whole:
        stream.index.remove(block_subkey(last_id))
    if not walked:
        return
    found = next(stream.index.scan(BLOCKS, BLOCKS_END), None)
    if found is None:
        stream.tail_count -= walked
    else:
        last_id, count = parse_block(*found)
        _put(stream, last_id, count - walked)


def counted(
    tx: Transaction, stream: StreamParts, entries: Iterable[tuple[bytes, bytes]]
) -> Iterator[tuple[bytes, bytes]]:
    """The records of the blocks of a stream that gets these entries, ids and values; afterwards its tail is counted."""
    stream.tail_count = 0
    if Form.STREAM_COUNTS not in tx.forms:
        return
    for entry_id, _ in entries:
        stream.tail_count += 1
        if stream.tail_count >= BLOCK_ENTRIES:
            yield block_subkey(entry_id), pack_count(stream.tail_count)
            stream.tail_count = 0


def _put(stream: StreamParts, last_id: bytes, count: int) -> None:
    if count:
        stream.index.put(block_subkey(last_id), pack_count(count))
    else:
        stream.index.remove(block_subkey(last_id))
