"""Keeps the last few states of the past on the disk, for reads that follow."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final, NamedTuple

from engine.apply.machine import Machine, Record
from engine.commands.registry import Spec, find
from engine.values.replies import Reply
from ops.config import ConfigError, Settings
from ops.past.narrow import narrowed, nearest_snapshot
from ops.past.walk import Past, apply_all, walked
from ops.state.opening.directories import free_space_guard
from ops.state.rebuilding.replay_plan import Until, ends_of, opened

if TYPE_CHECKING:
    from slotlog.log import Log, LogRecord

STATES_MAX: Final = 4
_SOME_MAX: Final = 16
"""States of some keys, in memory."""

_MIB: Final = 1024 * 1024
_MEMORY: Final = {"cache_bytes": 16 * _MIB, "memtable_bytes": 32 * _MIB}
"""Of each state that is kept."""


class _Kept(NamedTuple):
    """A state that is kept, and what removes it."""

    partition: int
    past: Past
    stack: AsyncExitStack


def keys_asked_for(spec: Spec, args: list[bytes]) -> list[bytes]:
    """The keys whose content decides the reply of a reading command; none: any may."""
    spec.check_arity(args)
    is_open = spec.runs_others or (spec.patterns is not None and bool(spec.patterns(args)))
    return [] if is_open else spec.keys(args)


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
        self._some_kept: dict[tuple[int, int, frozenset[bytes]], Past] = {}  # likewise
        self._log: Log | None = None

    async def at(self, partition: int, until: Until) -> Past:
        """The state of `partition` at `until`: one that is kept, or made of the nearest one before.

        Raises:
            ConfigError: as `walked`; or the disk is too full for one more.
            LogUnavailableError, OSError: as `walked`.
        """
        end = await self._end_of(partition, until)
        there = self._there(partition, end)
        if there is not None:
            return there
        return await self._make(partition, Until(offset=end), self._nearest(partition, end))

    async def read(self, partition: int, until: Until, name: bytes, args: list[bytes], db: int) -> Reply:
        """The reply of a reading command at `until`.

        Raises:
            CommandError, EventError: its own. Others: as `at`.
        """
        keys = frozenset(keys_asked_for(find(name), args))
        end = await self._end_of(partition, until)
        past = self._there(partition, end)
        if past is None and keys:
            past = await self._some(partition, end, keys)
        if past is None:
            past = await self.at(partition, Until(offset=end))
        return past.machine.read(name, args, db)

    async def close(self) -> None:
        """Remove all of them."""
        self._some_kept.clear()
        while self._kept:
            await self._kept.pop().stack.aclose()
        if self._log is not None:
            await self._log.close()

    def _there(self, partition: int, end: int) -> Past | None:
        """The whole state that is kept of just this moment."""
        for kept in self._kept:
            if (kept.partition, kept.past.machine.next_offset) == (partition, end):
                self._kept.remove(kept)
                self._kept.append(kept)
                return kept.past
        return None

    def _nearest(self, partition: int, end: int) -> Past | None:
        """The last whole state before `end` that is kept."""
        pasts = [kept.past for kept in self._kept if kept.partition == partition]
        earlier = [past for past in pasts if past.machine.next_offset <= end]
        return max(earlier, key=lambda past: past.machine.next_offset, default=None)

    async def _some(self, partition: int, end: int, keys: frozenset[bytes]) -> Past | None:
        """A state of these keys alone, in memory; None: see `narrowed`."""
        place = (partition, end, keys)
        past = self._some_kept.pop(place, None)
        if past is None:
            base, until = self._nearest(partition, end), Until(offset=end)
            nearest = await asyncio.to_thread(nearest_snapshot, self._settings, partition, until)
            if base is not None:
                nearest = max(nearest, base.machine.next_offset)
            past = await narrowed(self._settings, partition, until, apply_all, sorted(keys), nearest=nearest)
        if past is not None:
            self._some_kept[place] = past
            if len(self._some_kept) > _SOME_MAX:
                del self._some_kept[next(iter(self._some_kept))]
        return past

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
