"""The demo's walk through the past of one flight: its history, the board of a morning, and an undo."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from ops.config import Settings
from ops.demo.flights import Flight
from ops.past.history import History, Touch
from ops.past.narrow import walked_for
from ops.past.undo import Selection, Undone, undo
from ops.past.walk import apply_all
from ops.state.opening.directories import reading
from ops.state.rebuilding.replay_plan import Until

MORNING_MS: Final = 1_357_642_800_000
"""8 January 2013, 6 o'clock in New York."""

BOARD_ROWS: Final = 5


class PastWalk(NamedTuple):
    """The facts that the walk has seen.

    Attributes:
        moment_ms: the morning.
        flight: the last one that had left before.
        board: the latest departures from its airport at that moment.
        then, now, after: its hash at that moment, at the end of the month, and after the undo.
        undone: what that has appended.
        history: the events of the flight, the undo too.
    """

    moment_ms: int
    flight: Flight
    board: list[bytes]
    then: Any
    now: Any
    after: Any
    undone: Undone
    history: list[Touch]

    @property
    def is_right(self) -> bool:
        """Whether the undo has brought back what was there, and history and board know the flight."""
        named = self.flight.name.encode()
        return bool(self.then) and self.then == self.after and bool(self.history) and self.board[0] == named


async def walk_past(settings: Settings, flights: list[Flight], apply: Callable[[], Awaitable[object]]) -> PastWalk:
    """Look back, and append what brings the flight back onto the board.

    Args:
        settings: of the demo, whose state has applied everything.
        flights: of the month.
        apply: applies what the undo has appended.
    """
    end_ms = max(flight.time_ms for flight in flights)
    moment_ms = min(MORNING_MS, end_ms)
    left = [each for each in flights if each.time_ms < moment_ms and each.delay_minutes is not None]
    flight = max(left, key=lambda each: (each.time_ms, each.name))
    key, until = f"flight:{flight.name}".encode(), Until(time_ms=moment_ms)
    board = await _read_past(
        settings, until, b"LRANGE", f"departures:{flight.origin}".encode(), b"0", b"%d" % (BOARD_ROWS - 1)
    )
    then = await _read_past(settings, until, b"HGETALL", key)
    now = _read(settings, key)
    undone = Undone()
    await undo(settings, 0, until, Selection(0, key.__eq__, persist=True), undone, time_ms=end_ms)
    await apply()
    history: list[Touch] = []
    step = History(0, key, history.append, values=True).step
    async with walked_for(settings, 0, Until(), step, [key], from_snapshot=False):
        pass
    return PastWalk(moment_ms, flight, board, then, now, _read(settings, key), undone, history)


async def _read_past(settings: Settings, until: Until, name: bytes, *args: bytes) -> Any:
    async with walked_for(settings, 0, until, apply_all, [args[0]], from_snapshot=True) as past:
        return past.machine.read(name, list(args))


def _read(settings: Settings, key: bytes) -> Any:
    with reading(settings, 0) as (_, machine):
        return machine.read(b"HGETALL", [key])
