"""The forms that the engine gives to large values, given to small ones.

Rank counts and fragments follow from sizes, and so do ways of reading and writing: sequences of a hundred steps would
meet none of them. So the limits are put where those come, which must not change a reply.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Final
from unittest.mock import patch

from engine import limits
from engine.batch import staging
from engine.batch.in_memory import overlay
from engine.batch.keys import fragments
from engine.batch.ranks import rank_counts
from engine.types import draws
from engine.types.algebra import set_algebra
from engine.types.generic import scans
from engine.types.stream import stream_index, streams
from engine.types.zset import zset_ranges
from tests import left_behind

LIMITS: Final[tuple[tuple[ModuleType, str, int], ...]] = (
    (rank_counts, "PLAIN_SIZE_MAX", 2),
    (rank_counts, "BLOCK_MAX", 2),
    (rank_counts, "GROUP_MAX", 4),
    (zset_ranges, "_WALKED_MAX", 0),
    (zset_ranges, "_FEW_MAX", 3),
    (overlay, "CACHED_BYTES_MAX", 512),
    (limits, "FRAGMENT_BYTES", 32),
    (fragments, "INLINE_BYTES_MAX", 512),  # no number is longer, so that none is ever in fragments
    (staging, "STAGED_BYTES", 400),
    (scans, "_AT_ONCE", 2),
    (set_algebra, "MERGED_FROM", 2),
    (draws, "WALKED_SIZE_MAX", 4),
    (stream_index, "BLOCK_ENTRIES", 3),
    (streams, "POINTS_MAX", 2),
)


@contextmanager
def lowered() -> Iterator[None]:
    """Every limit of `LIMITS` is lowered, in whichever module has a name for it."""
    ours = [module for name, module in sys.modules.items() if name.partition(".")[0] in {"engine", "tests"}]
    with ExitStack() as stack:
        stack.callback(left_behind.forget)  # what was stored under these limits is sound under them alone
        for home, name, limit in LIMITS:
            usual = getattr(home, name)
            for module in ours:
                if vars(module).get(name) == usual:
                    stack.enter_context(patch.object(module, name, limit))
        yield
