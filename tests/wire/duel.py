"""The same requests to slotlog and to the oracle, and their replies byte by byte."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from tests.real.oracle import request as encoded
from tests.wire.draws import agrees, questions
from tests.wire.exceptions import Reply, Request, excused, name_of
from tests.wire.frames import RawConnection, array, parts

_QUEUED: Final = b"+QUEUED\r\n"


class DifferenceError(Exception):
    """The two sides answered differently; the message has the request and both replies."""


class Sides(NamedTuple):
    """A connection to each, in the same protocol and database."""

    slotlog: RawConnection
    oracle: RawConnection


class Tally(NamedTuple):
    """How often each command was refused and served, and which exceptions were made use of."""

    errors: Counter[bytes]
    served: Counter[bytes]
    excused: Counter[str]


def new_tally() -> Tally:
    """Nothing counted yet."""
    return Tally(Counter(), Counter(), Counter())


def compare_pipeline(sides: Sides, requests: Sequence[Request], tally: Tally, *, in_listpacks: bool) -> list[bytes]:
    """Send all requests in one write, first to slotlog, then to the oracle; returns the oracle's frame of each.

    Where slotlog drew at random the oracle is asked whether it might have (`tests.wire.draws`).
    Transactions begin and end within the requests.

    Raises:
        DifferenceError: a reply is another one, and no exception covers it.
    """
    frames = sides.slotlog.ask(_bytes(requests), len(requests))
    outcomes = _outcomes(requests, frames)
    groups = [questions(request, outcome) for request, outcome in zip(requests, outcomes, strict=True)]
    replies = iter(sides.oracle.ask(_bytes([one for group in groups for one in group]), sum(map(len, groups))))
    oracle_frames = _regrouped(groups, [[next(replies) for _ in group] for group in groups])
    oracle_outcomes = _outcomes(requests, oracle_frames)
    for request, group, ours, theirs in zip(requests, groups, outcomes, oracle_outcomes, strict=True):
        name = name_of(request)
        (tally.errors if ours.startswith(b"-") else tally.served)[name] += 1
        if group != [request]:
            if not agrees(request, ours, parts(theirs) if len(group) > 1 else [theirs]):
                raise DifferenceError(f"{request}\n  slotlog: {ours!r}\n  in the oracle: {theirs!r}")
        elif name == b"EXEC" and parts(ours) and parts(theirs):  # what it gave has been compared command by command
            check(Reply(request, _header(theirs), _header(ours), in_listpacks), tally)
        else:
            check(Reply(request, theirs, ours, in_listpacks), tally)
    return oracle_outcomes


def check(reply: Reply, tally: Tally) -> None:
    """Equal, or covered by an exception.

    Raises:
        DifferenceError: neither.
    """
    if reply.oracle == reply.slotlog:
        return
    name = excused(reply)
    if not name:
        raise DifferenceError(f"{reply.request}\n  oracle:  {reply.oracle!r}\n  slotlog: {reply.slotlog!r}")
    tally.excused[name] += 1


def _bytes(requests: Sequence[Request]) -> bytes:
    return b"".join(map(encoded, requests))


def _outcomes(requests: Sequence[Request], frames: Sequence[bytes]) -> list[bytes]:
    """What became of each request: its own frame or, where that is QUEUED, its part of what EXEC gave."""
    outcomes = list(frames)
    queue: list[int] = []
    for at, (request, frame) in enumerate(zip(requests, frames, strict=True)):
        if frame == _QUEUED:
            queue.append(at)
        elif request[0].upper() == b"EXEC":
            elements = parts(frame)
            if len(elements) == len(queue):
                for queued, element in zip(queue, elements, strict=True):
                    outcomes[queued] = element
            queue = []
    return outcomes


def _header(frame: bytes) -> bytes:
    return frame[: frame.index(b"\r\n")]


def _regrouped(groups: Sequence[Sequence[Request]], replies: Sequence[Sequence[bytes]]) -> list[bytes]:
    """One frame per group again, an array where a group has three; in what EXEC gave too."""
    frames: list[bytes] = []
    queued: list[int] = []
    for group, own in zip(groups, replies, strict=True):
        if own[0] == _QUEUED:
            queued.append(len(group))
            frames.append(_QUEUED)
        elif group[0][0].upper() == b"EXEC":
            elements = iter(parts(own[0]))
            joined = [_joined([next(elements) for _ in range(count)]) for count in queued] if parts(own[0]) else []
            frames.append(array(joined) if joined else own[0])
            queued = []
        else:
            frames.append(_joined(own))
    return frames


def _joined(frames: Sequence[bytes]) -> bytes:
    return frames[0] if len(frames) == 1 else array(frames)
