"""Works on several pieces at once, each in a process that ends with the others and with this one."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.sharedctypes import Synchronized
from threading import Thread
from types import WrapperDescriptorType
from typing import Final, TypeVar

from ops.config import MEMORY_SETTINGS, Settings
from ops.logging import configure_logging
from ops.progress import Advance, show_nothing

P = TypeVar("P")
R = TypeVar("R")

_SHOWN_SECONDS: Final = 0.1
_MEMORY_MIN: Final = 8 * 1024 * 1024

_done: Synchronized[int] | None = None
"""In a process of the pool: how much all of them have done."""


def each_in_process(
    work: Callable[[P, Advance], R], pieces: Sequence[P], processes: int, log_level: str, advance: Advance
) -> list[R]:
    """The results of `work` for each piece, in their order. The processes end at once when one fails or dies.

    They end with this process too, however that ends, and at Ctrl-C.

    Args:
        work: a function of a module; it is told by its second argument how much of its piece is done.
        pieces: pickled on their way, and so are the results.
        processes: how many at a time.
        log_level: of their log lines. They show no progress: this process shows that of all.
        advance: told how much of all pieces is done.

    Raises:
        RuntimeError: a process died.
        Exception: the first that `work` raised; one that has a constructor of its own as RuntimeError, with its text.
    """
    context = get_context("spawn")  # RocksDB's threads are none that a fork could take along
    done: Synchronized[int] = context.Value("Q", 0)
    held, hold = context.Pipe(duplex=False)
    with held, hold, ProcessPoolExecutor(min(processes, len(pieces)), context, _begin, (done, held, log_level)) as pool:
        try:
            futures = [pool.submit(_worked, work, piece) for piece in pieces]
            waiting: set[Future[R]] = set(futures)
            while waiting:
                ended, waiting = wait(waiting, _SHOWN_SECONDS, FIRST_EXCEPTION)
                advance(done.value)
                for future in ended:
                    future.result()
            return [future.result() for future in futures]
        except BrokenProcessPool as error:
            hold.close()
            raise RuntimeError(
                "a process of this command was ended from outside, for its memory perhaps: what was being built does "
                "not count. Run the command again, with fewer --processes"
            ) from error
        except BaseException:
            hold.close()  # ends them all: a pool would wait until each is done with its piece
            raise


def shared_between(settings: Settings, processes: int) -> Settings:
    """The settings of one of so many processes, which share the memory."""
    parts = {name: max(_MEMORY_MIN, getattr(settings, name) // processes) for name in MEMORY_SETTINGS}
    return settings.model_copy(update=parts)


def _begin(done: Synchronized[int], held: Connection, log_level: str) -> None:
    global _done  # noqa: PLW0603 - what the pool gives to a process comes to it in no other way
    _done = done
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that shows the progress
    configure_logging(log_level)
    show_nothing()
    Thread(target=_end_when_let_go, args=(held,), daemon=True).start()


def _end_when_let_go(held: Connection) -> None:
    """End when the other end of the pipe is closed, by the pool's process or because that is gone."""
    held.poll(None)
    os._exit(1)


def _worked(work: Callable[[P, Advance], R], piece: P) -> R:
    before = 0

    def advance(done: int) -> None:
        nonlocal before
        assert _done is not None, "set at the start of the process"
        with _done.get_lock():
            _done.value += done - before
        before = done

    try:
        return work(piece, advance)
    except Exception as error:
        if isinstance(type(error).__init__, WrapperDescriptorType):
            raise
        raise RuntimeError(str(error)) from None  # its constructor would be called with other arguments
