"""Tells whether a finalizer is at work, for slices, which must suspend nothing inside of one.

The interpreter swallows what a finalizer raises, and so the GreenletExit that ends abandoned work: the work would go on
as if nobody had ended it. And no garbage collection begins while another one is suspended. It is likely to be met: what
runs behind a long step in C, such as a collection or the end of a scan in RocksDB, is the first that a signal can meet.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final


class Finalizing:
    """Follows the garbage collector while it is watched, and knows a generator that is being closed.

    gc has no function that tells it. `gc.collect(0)` does, as it does nothing inside of a collection; but outside it
    walks all young objects, which at the end of each slice took 5 % of a server's time with SET by 16 in a pipeline.
    """

    def __init__(self) -> None:
        self._is_collecting = False

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Follow the collector meanwhile: the first of its callbacks hears of a beginning, the last one of an end."""
        gc.callbacks.insert(0, self.note_start)
        gc.callbacks.append(self.note_stop)
        try:
            yield
        finally:
            gc.callbacks.remove(self.note_start)
            gc.callbacks.remove(self.note_stop)
            self._is_collecting = False

    def has(self, frame: FrameType | None) -> bool:
        """Whether what runs in `frame`, in this greenlet, runs inside of a collection, a `__del__` or a closing."""
        return self._is_collecting or _closes_generator() or _is_within_finalizer(frame)

    def note_start(self, phase: str, _info: dict[str, int]) -> None:
        """A callback of the collector: it begins."""
        if phase == "start":
            self._is_collecting = True

    def note_stop(self, phase: str, _info: dict[str, int]) -> None:
        """A callback of the collector: it has ended."""
        if phase == "stop":
            self._is_collecting = False


_NOTING: Final = frozenset((Finalizing.note_start.__code__, Finalizing.note_stop.__code__))
"""A signal may come between the beginning of a callback and what it notes: its own frame tells it then."""


def _closes_generator() -> bool:
    """Whether a generator that nobody has read to its end runs its last code, such as a `finally`."""
    error = sys.exception()
    while error is not None and type(error) is not GeneratorExit:
        error = error.__context__
    return error is not None


def _is_within_finalizer(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code in _NOTING or frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False
