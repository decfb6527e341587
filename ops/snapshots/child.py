"""Runs a function in a process of its own beside an event loop, which can break it off."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection
from threading import Thread
from typing import Any, Final, TypeVar

from ops.snapshots.errors import ChildEndedError

R = TypeVar("R")

_NICENESS: Final = 10

_parent: Connection | None = None
"""Of a process that `in_child` began: where its result goes."""


def tell(said: Any) -> None:
    """Let who runs this process hear of its progress. It may be any other process as well: then nobody hears."""
    if _parent is not None:
        _parent.send((said, None, False))


def nobody(_said: Any) -> None:
    """Hears nothing."""


async def in_child(work: Callable[..., R], *args: Any, heard: Callable[[Any], None] = nobody) -> R:
    """The result of `work`, from a process that gives way to others, and ends with this one, or when cancelled.

    Args:
        work: a function of a module.
        args: pickled on their way, as the result is.
        heard: called with what `work` tells (`tell`).

    Raises:
        ChildEndedError: the process was ended from outside.
        Exception: what `work` raised.
    """
    context = get_context("spawn")  # RocksDB's threads are none that a fork could take along
    results, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(theirs, work, args), daemon=True)
    with results:
        with theirs:
            await asyncio.to_thread(process.start)
        try:
            value, error = await _result(results, heard)
        except EOFError:
            raise ChildEndedError("its process was ended from outside, for its memory perhaps") from None
        finally:
            process.kill()
            await asyncio.to_thread(process.join)
    if error is not None:
        raise error
    result: R = value
    return result


async def _result(results: Connection, heard: Callable[[Any], None]) -> tuple[Any, Exception | None]:
    """The last of what comes.

    Raises:
        EOFError: it did not come.
    """
    while True:
        await readable(results)
        value, error, is_last = results.recv()
        if is_last:
            return value, error
        heard(value)


async def readable(results: Connection) -> None:
    """Wait until the other end has sent something, or is closed."""
    loop = asyncio.get_running_loop()
    event = asyncio.Event()
    loop.add_reader(results.fileno(), event.set)
    try:
        await event.wait()
    finally:
        loop.remove_reader(results.fileno())


def _run(results: Connection, work: Callable[..., Any], args: tuple[Any, ...]) -> None:
    global _parent  # noqa: PLW0603 - this process has one
    _parent = results
    give_way()
    try:
        value = work(*args)
    except Exception as error:  # noqa: BLE001 - it is raised again where the result is wanted
        results.send((None, error, True))
    else:
        results.send((value, None, True))


def give_way() -> None:
    """Let this process give way to others from now on, and end with the one that has begun it."""
    Thread(target=_end_with_parent, daemon=True).start()
    os.nice(_NICENESS)


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
