"""Counts the event loop's turns and its busy time, as libuv does, for INFO.

uvloop hands out no figures, but its library has libuv's functions and the loop's address. Measured: to note the time of
waiting costs the loop one more look at its sockets before it sleeps, under a microsecond a turn.
"""

from __future__ import annotations

import asyncio
import ctypes
from time import perf_counter_ns
from typing import Any, Final

import uvloop

_METRICS_IDLE_TIME: Final = 1  # of libuv's uv_loop_option


class _Metrics(ctypes.Structure):
    """libuv's uv_metrics_t."""

    _fields_ = (
        ("loop_count", ctypes.c_uint64),
        ("events", ctypes.c_uint64),
        ("events_waiting", ctypes.c_uint64),
        ("reserved", ctypes.c_uint64 * 13),
    )


class LoopUse:
    """The turns and busy time of one event loop, since the last reset.

    Args:
        loop: of uvloop, running; its time of waiting is noted from now on.
    """

    def __init__(self, loop: uvloop.Loop) -> None:
        module: Any = uvloop.loop
        address_of = ctypes.pythonapi.PyCapsule_GetPointer
        address_of.restype, address_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
        self._loop = ctypes.c_void_p(address_of(module.libuv_get_loop_t_ptr(loop), None))
        self._libuv = ctypes.CDLL(module.__file__)
        self._libuv.uv_metrics_idle_time.restype = ctypes.c_uint64
        self._libuv.uv_loop_configure(self._loop, ctypes.c_int(_METRICS_IDLE_TIME))
        self._first_turn = self._began_ns = 0
        self.reset()

    @classmethod
    def of(cls, loop: asyncio.AbstractEventLoop) -> LoopUse | None:
        """Of this loop; None where it is none of uvloop's."""
        return cls(loop) if isinstance(loop, uvloop.Loop) else None

    def reset(self) -> None:
        """Count from now on."""
        self._first_turn = self._turns()
        self._began_ns = perf_counter_ns() - self._idle_ns()

    @property
    def turns(self) -> int:
        """How often the loop has turned."""
        return self._turns() - self._first_turn

    @property
    def busy_us(self) -> int:
        """How long it did something, in microseconds."""
        return (perf_counter_ns() - self._began_ns - self._idle_ns()) // 1000

    def _turns(self) -> int:
        metrics = _Metrics()
        self._libuv.uv_metrics_info(self._loop, ctypes.byref(metrics))
        return int(metrics.loop_count)

    def _idle_ns(self) -> int:
        return int(self._libuv.uv_metrics_idle_time(self._loop))
