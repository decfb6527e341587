"""Keeps the last few states of the past on the disk, for reads that follow."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final, NamedTuple

from engine.apply.machine import Machine, Record
from ops.config import ConfigError, Settings
from ops.past.walk import Past, apply_all, walked
from ops.state.directories import free_space_guard
from ops.state.rebuilding.replay_plan import Until, ends_of, opened

if TYPE_CHECKING:
    from slotlog.log import Log, LogRecord

STATES_MAX: Final = 4
_MIB: Final = 1024 * 1024
_MEMORY: Final = {"cache_bytes": 16 * _MIB, "memtable_bytes": 32 * _MIB}
"""Of each state that is kept."""


class _Kept(NamedTuple):
    """A state that is kept, and what removes it."""

    partition: int
    past: Past
    stack: AsyncExitStack


class KeptStates:
    """The states of the past that one process keeps. They share no memory with the live one.

    Args:
        settings: of the service.
        states_max: how many are kept; the one that was not asked for the longest goes first.
    """

    def __init__(self, settings: Settings, states_max: int = STATES_MAX) -> None:
        self._settings = settings.model_copy(update=_MEMORY)
        self._states_max = states_max
        self._kept: list[_Kept] = []  # that which was asked for last is the last
        self._log: Log | None = None

    async def at(self, partition: int, until: Until) -> Past:
        """The state of `partition` at `until`: one that is kept, or made of the nearest one before.

        Raises:
            ConfigError: as `walked`; or the disk is too full for one more.
            LogUnavailableError, OSError: as `walked`.
        """
        end = await self._end_of(partition, until)
        earlier: _Kept | None = None
        for kept in self._kept:
            there = kept.past.machine.next_offset
            if kept.partition != partition or there > end:
                continue
            if there == end:
                self._kept.remove(kept)
                self._kept.append(kept)
                return kept.past
            if earlier is None or there > earlier.past.machine.next_offset:
                earlier = kept
        return await self._make(partition, Until(offset=end), None if earlier is None else earlier.past)

    async def close(self) -> None:
        """Remove all of them."""
        while self._kept:
            await self._kept.pop().stack.aclose()
        if self._log is not None:
            await self._log.close()

    async def _make(self, partition: int, until: Until, base: Past | None) -> Past:
        while len(self._kept) >= self._states_max:
            oldest = next(each for each in self._kept if each.past is not base)
            self._kept.remove(oldest)
            await oldest.stack.aclose()
        stack = AsyncExitStack()
        past = await stack.enter_async_context(
            walked(self._settings, partition, until, self._step, from_snapshot=True, base=base)
        )
        self._kept.append(_Kept(partition, past, stack))
        return past

    def _step(self, machine: Machine, records: Sequence[Record], _raw: Sequence[LogRecord]) -> None:
        """As `apply_all`, as long as the disk has room: the service needs it for what is new."""
        if full := free_space_guard(self._settings.data, self._settings.free_bytes_min):
            raise ConfigError(full)
        apply_all(machine, records)

    async def _end_of(self, partition: int, until: Until) -> int:
        if self._log is None:
            log = opened(self._settings)
            await log.start()
            self._log = log
        return (await ends_of(self._log, (partition,), until))[partition]
