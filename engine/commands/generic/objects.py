"""OBJECT and MEMORY: the encoding of a key in Redis, and its size on disk.

Accesses are not counted, as nothing is evicted. Source: https://valkey.io/commands/object-encoding/, …/memory-usage/.
"""

from __future__ import annotations

from typing import Final

from engine.batch.keys.object_encoding import object_encoding
from engine.batch.transaction import Transaction
from engine.commands.options import read_integer, read_option
from engine.commands.registry import command
from engine.errors import SYNTAX, CommandError
from engine.types.generic.stored_bytes import stored_bytes
from engine.values.replies import Reply

_SAMPLES: Final = 5
_NO_FREQUENCY: Final = (
    "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching "
    "between policies at runtime LRU and LFU data will take some time to adjust."
)


@command(
    "OBJECT ENCODING key",
    group="generic",
    since="2.2.3",
    complexity="O(1); O(n) for a collection that may be small",
    physical=True,
    container=True,
    access="RO",
)
def object_encoding_(tx: Transaction, args: list[bytes]) -> Reply:
    """Return the encoding that Redis would use; nil when the key is absent.

    > SET a "12"
    OK
    > OBJECT ENCODING a
    "int"
    > RPUSH l "x"
    (integer) 1
    > OBJECT ENCODING l
    "listpack"
    """
    key = tx.find(args[0])
    return None if key is None else object_encoding(key, tx.knobs)


@command(
    "OBJECT FREQ key", group="generic", since="4.0.0", complexity="O(1)", physical=True, container=True, access="RO"
)
def object_freq(tx: Transaction, args: list[bytes]) -> Reply:
    """Return an error, as Redis does without LFU eviction: accesses are not counted.

    > OBJECT FREQ none
    (nil)
    """
    if tx.find(args[0]) is None:
        return None
    raise CommandError(_NO_FREQUENCY)


@command(
    "OBJECT IDLETIME key", group="generic", since="2.2.3", complexity="O(1)", physical=True, container=True, access="RO"
)
def object_idletime(tx: Transaction, args: list[bytes]) -> Reply:
    """Return 0, as accesses are not recorded; nil when the key is absent.

    > SET a "1"
    OK
    > OBJECT IDLETIME a
    (integer) 0
    """
    return None if tx.find(args[0]) is None else 0


@command(
    "OBJECT REFCOUNT key", group="generic", since="2.2.3", complexity="O(1)", physical=True, container=True, access="RO"
)
def object_refcount(tx: Transaction, args: list[bytes]) -> Reply:
    """Return 1; nil when the key is absent.

    > RPUSH l "a"
    (integer) 1
    > OBJECT REFCOUNT l
    (integer) 1
    """
    return None if tx.find(args[0]) is None else 1


@command(
    "MEMORY USAGE key [SAMPLES count]",
    group="server",
    since="4.0.0",
    complexity="O(samples)",
    physical=True,
    container=True,
    access="RO",
    categories=(),
)
def memory_usage(tx: Transaction, args: list[bytes]) -> Reply:
    """Return a key's size on disk in bytes, before compression; nil when the key is absent.

    Of a collection the first `count` elements are looked at, 5 unless said, all of them for 0; the others are taken to
    be as large.

    > MEMORY USAGE none
    (nil)
    """
    samples = _parse_samples(args[1:])
    key = tx.find(args[0])
    if key is None:
        return None
    return stored_bytes(tx, key, samples)


def _parse_samples(words: list[bytes]) -> int:
    """The last of the counts; 0 for all."""
    samples = _SAMPLES
    for at in range(0, len(words), 2):
        if read_option(words[at]) != b"SAMPLES" or at + 1 == len(words):
            raise CommandError(SYNTAX)
        count = read_integer(words[at + 1])
        if count < 0:
            raise CommandError(SYNTAX)
        samples = count
    return samples
