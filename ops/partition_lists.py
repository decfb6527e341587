"""Reads lists of partitions, as settings and options have them."""

from __future__ import annotations

import re


def parse_own(own: str, partitions: int) -> list[int]:
    """The partitions that `own` names: `0-3,6` -> [0, 1, 2, 3, 6]; empty: all of them.

    Raises:
        ValueError: not such a list, or a partition that is not there.
    """
    if not own:
        return list(range(partitions))
    chosen: set[int] = set()
    for part in own.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part)
        if match is None:
            raise ValueError(f"own: {part!r} is neither a partition nor a range such as 0-3")
        first = int(match[1])
        last = int(match[2] or first)
        if first > last or last >= partitions:
            raise ValueError(f"own: {part!r} is not within 0-{partitions - 1}")
        chosen.update(range(first, last + 1))
    return sorted(chosen)


def parse_share(share: str, partitions: int) -> list[int]:
    """The partitions of one of several processes alike, in runs as even as can be: `1/2` of 4 -> [2, 3]; empty: all.

    Raises:
        ValueError: not INDEX/COUNT, or a process would be left without a partition.
    """
    match = re.fullmatch(r"(\d+)/(\d+)", share or "0/1", re.ASCII)
    index, count = (int(match[1]), int(match[2])) if match else (0, 0)
    if not index < count <= partitions:
        raise ValueError(f"own_of: {share!r} is not INDEX/COUNT with INDEX from 0 and COUNT at most {partitions}")
    return list(range(index * partitions // count, (index + 1) * partitions // count))
