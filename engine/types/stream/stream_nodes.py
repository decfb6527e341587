"""Counts what `~` trims of a stream: as Redis does it, whole nodes, the oldest first.

It reads the entries that go and those of one node, but none where all go. The node that stays is kept in memory, as
far as it was read, so that an XADD with MAXLEN `~` reads each entry once, and most of them no entry.
"""

from __future__ import annotations

from engine.batch.keys.key import Key
from engine.batch.transaction import Transaction
from engine.types.stream import streams
from engine.types.stream.streams import Trim, parts
from engine.values.stream_nodes import Node
from engine.values.stream_records import parse_entry


def count(key: Key, how: Trim) -> tuple[int, Node | None]:
    """How many entries are in the nodes that go, and the node behind them as far as it is known.

    A node goes whole if as many entries as are asked for stay, or if all its entries are below the id that is asked
    for. One that has more than what is left of `how.most` ends it.
    """
    stream, total = parts(key), 0
    if (how.most is None or key.size <= how.most) and (
        how.length == 0 if how.length is not None else stream.end_id < how.min_id
    ):
        return key.size, None
    node = stream.oldest or Node(stream.first_id)
    while total < key.size:
        most = key.size - total
        if how.length is not None:
            most -= how.length
        if how.most is not None:
            most = min(most, how.most - total)
        if most <= 0:
            break
        if not node.is_closed and node.count <= most and (how.length is not None or node.last_id < how.min_id):
            _grow(key, node)
        if node.count > most or (how.length is None and node.last_id >= how.min_id):
            break
        total += node.count
        behind = streams.id_after(node.last_id)
        if behind is None:
            return total, None
        node = Node(behind)
    return total, node if node.count else None


def trim(tx: Transaction, key: Key, how: Trim) -> int:
    """Delete the oldest nodes. Returns how many entries are gone."""
    total, node = count(key, how)
    if total:
        streams.trim(tx, key, Trim(key.size - total))
    parts(key).oldest = node
    return total


def _grow(key: Key, node: Node) -> None:
    """Let a node have all entries that belong to it."""
    start = streams.id_after(node.last_id) if node.count else node.start
    if start is None:
        return
    for entry_id, value in streams.entries(key, start):
        if not node.take(entry_id, parse_entry(value)):
            return
