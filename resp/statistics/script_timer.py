"""Measures the commands that scripts call, for SLOWLOG and LATENCY."""

from __future__ import annotations

from time import perf_counter
from typing import Final, Protocol

from ingest.applying.slicing.slices import Slices
from resp.statistics.accounting import Accounting

_SHORT_SECONDS: Final = 0.0001
"""What takes no longer is not asked whether it was suspended, as in fast_path.py."""


class TimingServer(Protocol):
    """The server whose clients have sent the scripts.

    Attributes:
        slices: in which its commands run.
        accounting: takes the slow ones.
    """

    slices: Slices
    accounting: Accounting


class ScriptTimer:
    """Implements `engine.apply.script_calls.CallTimer`.

    Args:
        server: whose slow commands are noted.
    """

    __slots__ = ("_server",)

    begin = staticmethod(perf_counter)

    def __init__(self, server: TimingServer) -> None:
        self._server = server

    def end(self, began: float, words: list[bytes]) -> None:
        """A command has run since `began`: tell for how long, without the time that it was suspended."""
        server = self._server
        seconds = perf_counter() - began
        if seconds > _SHORT_SECONDS:
            seconds = server.slices.own_seconds(began)
        server.accounting.ended_in_script(words, seconds)
