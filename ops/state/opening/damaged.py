"""Reads a state partition by partition, past those that are damaged or cannot be opened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from engine.errors import CorruptionError
from engine.store.store import is_damage

T = TypeVar("T")


class Damaged(NamedTuple):
    """A partition that could not be read to its end, and why, with its number."""

    partition: int
    reason: str


def read_each(
    partitions: Sequence[int], read: Callable[[int], T], hint: str = "; `slotlog check` says what is wrong"
) -> tuple[list[T], list[Damaged]]:
    """What `read` gives of every partition that it can read, in their order, and those that it cannot.

    Args:
        partitions: their numbers, one at least.
        read: of one partition.
        hint: where to look further, behind each reason.

    Raises:
        CorruptionError, OSError: none can be read; of several, why the first cannot.
        Exception: whatever else `read` raises.
    """
    results: list[T] = []
    damaged: list[Damaged] = []
    failures: list[type[Exception]] = []
    for partition in partitions:
        try:
            results.append(read(partition))
        except OSError as error:
            failures.append(OSError)
            damaged.append(Damaged(partition, f"partition {partition} cannot be read: {error}"))
        except Exception as error:
            if not is_damage(error):
                raise
            failures.append(CorruptionError)
            damaged.append(Damaged(partition, f"partition {partition} cannot be read to its end: {error}{hint}"))
    if not results:
        raise failures[0](damaged[0].reason)
    return results, damaged
