"""Estimates the bytes that a key takes on disk before compression, by a sample of its elements."""

from __future__ import annotations

from itertools import islice

from engine.batch.keys.key import Key
from engine.batch.overlaid import Subkeys
from engine.batch.transaction import Transaction
from engine.limits import FRAGMENT_BYTES
from engine.model import STRING
from engine.values.encoding import parse_u64


def stored_bytes(tx: Transaction, key: Key, samples: int) -> int:
    """The bytes of the metadata and of the first `samples` records of each kind, 0 for all; the others are as large."""
    total = tx.keyspace().record_bytes(key)
    return total + sum(_subkey_bytes(subkeys, key, samples) for subkeys in key.families())


def _subkey_bytes(subkeys: Subkeys, key: Key, samples: int) -> int:
    sampled = list(islice(subkeys.scan(), samples or None))
    if not sampled:
        return 0
    count = key.count()
    if key.stream is not None:
        count = max(count, len(sampled)) if subkeys is key.stream.records else len(sampled)
    if key.type == STRING:  # as many of its fragments are not zero as of those up to the last sample
        behind = parse_u64(sampled[-1][0]) + 1
        every = -(-key.size // FRAGMENT_BYTES) if len(sampled) == samples else behind
        count = every * len(sampled) // behind
    sizes = [len(subkey) + len(value) for subkey, value in sampled]
    return count * len(subkeys.prefix) + sum(sizes) * count // len(sizes)
