"""Fills an embedded log with SETs of so many keys."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from random import Random
from typing import Final

from slotlog.events import encode
from slotlog.log import Entry, open_log
from slotlog.shared.slots import slot

VALUE_BYTES: Final = 100
_AT_ONCE: Final = 5000


async def append_sets(path: Path, numbers: Iterable[int], seed: int) -> int:
    """Append a SET of 100 random bytes for each key, by its number. Returns how many it were.

    The log may be that of a running service.
    """
    random, appended = Random(seed), 0
    log = open_log(f"sqlite:///{path}", topic="slotlog", partitions=1)
    await log.start()
    try:
        numbers = iter(numbers)
        while chosen := list(islice(numbers, _AT_ONCE)):
            await log.append([_set(number, random) for number in chosen])
            appended += len(chosen)
    finally:
        await log.close()
    return appended


def _set(number: int, random: Random) -> Entry:
    key = b"key:%08d" % number
    return Entry(0, slot(key).to_bytes(2, "big"), encode("SET", [key, random.randbytes(VALUE_BYTES)]))
