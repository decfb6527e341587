"""One random session on both sides, turn by turn."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from typing import Final

from tests.real.oracle import request as encoded
from tests.wire.duel import DifferenceError, Sides, Tally, check, compare_pipeline
from tests.wire.exceptions import Reply, is_greeting
from tests.wire.frames import RawConnection, parts
from tests.wire.sessions import CLIENTS, PROBES, Turn

Address = str | tuple[str, int]
_GREETING: Final = (b"HELLO",)  # the only replies here that an exception may cover
_EXEC: Final = (b"EXEC",)


class Conversation:
    """Clients that talk to both sides; one whose connection was closed comes back as a new one.

    Args:
        slotlog: the address of one side.
        oracle: that of the other.
        tally: gets the exceptions that were made use of.
    """

    def __init__(self, slotlog: Address, oracle: Address, tally: Tally) -> None:
        self._addresses = (slotlog, oracle)
        self._tally = tally
        self._sides: dict[int, Sides] = {}

    def run(self, turns: Sequence[Turn], *, emptied: bool = True) -> None:
        """Empty both sides if they are to be, run all turns, end all clients, and compare what is there.

        Raises:
            DifferenceError: in a reply, in when a connection is closed, or in the contents.
        """
        with ExitStack() as stack:
            observer = Sides(*(stack.enter_context(closing(RawConnection(address))) for address in self._addresses))
            stack.callback(self._close)
            compare_pipeline(observer, [(b"FLUSHALL",)] if emptied else [], self._tally, in_listpacks=True)
            for turn in turns:
                self._turn(turn)
            for client in range(CLIENTS):
                self._end(client, encoded([b"QUIT"]))
            compare_pipeline(observer, PROBES, self._tally, in_listpacks=True)

    def _turn(self, turn: Turn) -> None:
        sides = self._connected(turn.client)
        if turn.ends:
            self._end(turn.client, turn.data)
            return
        ours, theirs = (side.ask(turn.data, turn.replies) for side in sides)
        self._compare(repr(turn.data), ours, theirs)
        if sides.slotlog.closed or sides.oracle.closed:
            self._end(turn.client, b"")

    def _end(self, client: int, data: bytes) -> None:
        """Send what makes both sides close: whatever comes until then is the same, too."""
        sides = self._connected(client)
        ours, theirs = (side.drain(data) for side in sides)
        self._compare(repr(data), ours, theirs)
        self._sides.pop(client)
        for side in sides:
            side.close()

    def _connected(self, client: int) -> Sides:
        if client not in self._sides:
            self._sides[client] = Sides(*map(RawConnection, self._addresses))
        return self._sides[client]

    def _close(self) -> None:
        for sides in self._sides.values():
            for side in sides:
                side.close()

    def _compare(self, where: str, ours: Sequence[bytes], theirs: Sequence[bytes]) -> None:
        if len(ours) != len(theirs):
            raise DifferenceError(f"{where}\n  oracle:  {theirs}\n  slotlog: {ours}")
        for mine, expected in zip(ours, theirs, strict=True):
            try:
                self._compare_frames(mine, expected)
            except DifferenceError as difference:
                raise DifferenceError(
                    f"{where}\n{difference}\n  oracle, all:  {theirs}\n  slotlog, all: {ours}"
                ) from None

    def _compare_frames(self, ours: bytes, theirs: bytes) -> None:
        elements, expected = parts(ours), parts(theirs)
        if any(map(is_greeting, expected)):
            check(Reply(_EXEC, theirs, ours, in_listpacks=True), self._tally)
        elif elements and len(elements) == len(expected) and not is_greeting(theirs):  # what EXEC gave
            for element, other in zip(elements, expected, strict=True):
                self._compare_frames(element, other)
        else:
            check(Reply(_GREETING, theirs, ours, in_listpacks=True), self._tally)
