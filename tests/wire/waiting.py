"""Random plays of clients that wait, on slotlog and on the oracle: who is answered, with what, and when.

One client acts, one command or transaction at a time; the others wait for entries of streams, and some for elements of
lists and sorted sets of the same names. After each act the same clients are answered on both sides, with the same
bytes, and all others wait on.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from random import Random
from typing import Final, NamedTuple

from tests.real.oracle import request as encoded
from tests.wire.campaign import Servers
from tests.wire.duel import DifferenceError, Sides, Tally, check, compare_pipeline
from tests.wire.exceptions import Reply, Request
from tests.wire.frames import RawConnection, bulk

WAITERS: Final = 5
STEPS_MAX: Final = 60
PATIENCE_S: Final = 10.0
_POLL_S: Final = 0.0005

_WAITS: Final = (
    *("XREAD BLOCK 0 STREAMS x $", "XREAD BLOCK 0 STREAMS x y $ $", "XREAD COUNT 1 BLOCK 0 STREAMS y x + 0"),
    *("XREAD BLOCK 0 STREAMS x 9-9", "XREAD BLOCK 0 STREAMS y 5-9"),
    *("XREADGROUP GROUP g c{0} BLOCK 0 STREAMS x >",) * 4,
    *("XREADGROUP GROUP g c{0} COUNT 1 BLOCK 0 STREAMS x >",) * 3,
    *("XREADGROUP GROUP h c{0} COUNT 2 BLOCK 0 NOACK STREAMS x >", "XREADGROUP GROUP g one BLOCK 0 STREAMS x >"),
    *("XREADGROUP GROUP g c{0} COUNT 1 BLOCK 0 STREAMS x y > >", "XREADGROUP GROUP g c{0} BLOCK 0 STREAMS y x > 0"),
    *("BLPOP x y 0", "BZPOPMIN y x 0", "BLMOVE x y LEFT RIGHT 0"),
)
_ACTS: Final = (
    *("XADD x 5-* f v", "XADD y 1-* f v", "XADD x 6-* f v", "XADD y 9-* f v f v") * 3,
    *("MULTI | XADD x 6-* f 1 | XADD x 6-* f 2 | EXEC", "MULTI | XADD x 6-* f 1 | XADD y 6-* f 2 | EXEC"),
    *("MULTI | XADD x 7-* f 1 | XTRIM x MAXLEN 0 | EXEC", "MULTI | XADD x 7-* f 1 | DEL x | EXEC"),
    "MULTI | XADD x 7-* f 1 | XREADGROUP GROUP g c0 STREAMS x > | XADD x 7-* f 2 | EXEC",
    *("MULTI | DEL x | XADD x 1-0 f v | EXEC", "MULTI | XGROUP DESTROY x g | XGROUP CREATE x g 0 MKSTREAM | EXEC"),
    *("XGROUP CREATE x g $ MKSTREAM", "XGROUP CREATE y g $ MKSTREAM", "XGROUP CREATE x h 0 MKSTREAM") * 3,
    *("XGROUP DESTROY x g", "XGROUP DESTROY y g", "XGROUP SETID x g $"),
    *(
        "MULTI | XGROUP SETID x g 0 | XADD x 9-* f v | EXEC",
        "MULTI | XGROUP DELCONSUMER x g c1 | XADD x 9-* f v | EXEC",
    ),
    *("XREADGROUP GROUP g c0 COUNT 1 STREAMS x >", "XREADGROUP GROUP g c2 STREAMS x 0"),
    *("XACK x g 5-0 5-1 6-0", "XAUTOCLAIM x g c3 0 0 COUNT 2 JUSTID", "XCLAIM x g c4 0 5-0 6-0 FORCE JUSTID"),
    *("XDEL x 5-0", "XTRIM x MAXLEN 1", "XSETID x 8-0", "XADD x MAXLEN 1 8-* f v", "XADD x NOMKSTREAM 8-* f v"),
    *("DEL x", "DEL x y", "UNLINK y", "FLUSHALL", "FLUSHDB", "SET x text", "RPUSH x a b", "ZADD y 1 a", "HSET x f v"),
    *("RENAME x y", "RENAME y x", "RENAMENX x y", "COPY x y REPLACE", "COPY y x", "MOVE x 1", "SWAPDB 0 1"),
    *("PEXPIRE x -1", "PEXPIREAT y 1", "LPOP x", "SUNIONSTORE x nosuch", "XADD x 1-1 f v"),
    *("EVAL return(redis.pcall('XADD','x','5-*','f','v')and(1)) 1 x", "EVAL redis.call('DEL','x') 1 x"),
    *("UNBLOCK 0", "UNBLOCK 1 ERROR", "UNBLOCK 2 TIMEOUT"),
)
_LOOKS: Final[tuple[Request, ...]] = tuple(
    request
    for key in (b"x", b"y")
    for request in (
        (b"TYPE", key),
        (b"XINFO", b"STREAM", key, b"FULL", b"COUNT", b"0"),
        (b"LRANGE", key, b"0", b"-1"),
        (b"ZRANGE", key, b"0", b"-1"),
    )
)


class Play(NamedTuple):
    """One step: a client begins to wait, if it does not already; where `client` is None, the one who acts does so."""

    client: int | None
    words: str


def plays(random: Random) -> list[Play]:
    """Up to `STEPS_MAX` steps: the same ones from the same seed."""
    return [_play(random) for _ in range(random.randint(2, STEPS_MAX))]


def _play(random: Random) -> Play:
    if random.randrange(5) < 2:
        client = random.randrange(WAITERS)
        return Play(client, random.choice(_WAITS).format(client))
    return Play(None, random.choice(_ACTS))


class Stage:
    """The same clients on both sides.

    Args:
        servers: both sides.
        protocol: of those who wait: 2 or 3.
        tally: gets the exceptions that were made use of, and which commands were answered late.
        patience_s: so long slotlog may take to answer those whom the oracle has answered.
    """

    def __init__(self, servers: Servers, protocol: int, tally: Tally, patience_s: float = PATIENCE_S) -> None:
        self._servers, self._tally, self._patience_s = servers, tally, patience_s
        self._greeting = encoded(["HELLO", protocol])
        self._waiting: dict[int, str] = {}

    def run(self, steps: Sequence[Play]) -> None:
        """Empty both sides, take all steps, let nobody wait any longer, and compare what is there.

        Raises:
            DifferenceError: in a reply, in who is answered, or in the contents.
        """
        with ExitStack() as stack:
            self._actor = self._connect(stack)
            self._clients = [self._connect(stack) for _ in range(WAITERS)]
            self._ids = [[_number(side.ask(encoded(["CLIENT", "ID"]), 1)) for side in each] for each in self._clients]
            for client in self._clients:
                for side in client:
                    side.ask(self._greeting, 1)
            self._compare([(b"FLUSHALL",)])
            for step in steps:
                self._step(step)
            for client_number in list(self._waiting):
                self._act(f"UNBLOCK {client_number}")
            self._compare(_LOOKS)

    def _connect(self, stack: ExitStack) -> Sides:
        return Sides(*(stack.enter_context(closing(RawConnection(address))) for address in self._servers))

    def _step(self, step: Play) -> None:
        if step.client is None:
            self._act(step.words)
        elif step.client not in self._waiting:
            self._waiting[step.client] = step.words
            for side in self._clients[step.client]:
                side.ask(encoded(step.words.split()), 0)
            self._compare_answers(step.words)

    def _act(self, words: str) -> None:
        name, *rest = words.split()
        if name == "UNBLOCK":
            client, *how = rest
            requests = [encoded(["CLIENT", "UNBLOCK", number, *how]) for number in self._ids[int(client)]]
            ours, theirs = (side.ask(data, 1)[0] for side, data in zip(self._actor, requests, strict=True))
            check(Reply((b"CLIENT", b"UNBLOCK"), theirs, ours, in_listpacks=True), self._tally)
        else:
            self._compare([tuple(command.encode().split()) for command in words.split(" | ")])
        self._compare_answers(words)

    def _compare(self, requests: Sequence[Request]) -> None:
        compare_pipeline(self._actor, requests, self._tally, in_listpacks=True)

    def _compare_answers(self, after: str) -> None:
        """Who is answered after these words, and with what."""
        expected = self._answered_by_oracle()
        answered = self._answered_by_slotlog(expected)
        if answered != expected:
            raise DifferenceError(f"after {after}: answered {answered}, by the oracle {expected}, of {self._waiting}")
        for client in expected:
            words = self._waiting.pop(client)
            ours, theirs = (side.ask(b"", 1)[0] for side in self._clients[client])
            try:
                check(Reply(tuple(words.encode().split()), theirs, ours, in_listpacks=True), self._tally)
            except DifferenceError as difference:
                raise DifferenceError(f"client {client}, after {after}: {difference}") from None
            if words != after:
                self._tally.served[words.split()[0].encode()] += 1

    def _answered_by_oracle(self) -> list[int]:
        """Each client has been answered or is among those that it says to wait."""
        while True:
            blocked = _blocked(self._actor.oracle)
            answered = [client for client in self._waiting if self._clients[client].oracle.has_data()]
            if blocked + len(answered) == len(self._waiting):
                return answered

    def _answered_by_slotlog(self, expected: Sequence[int]) -> list[int]:
        """Those who are answered in time; whoever waits is one of those that it says to wait."""
        deadline = time.monotonic() + self._patience_s
        while True:
            blocked = _blocked(self._actor.slotlog)
            answered = [client for client in self._waiting if self._clients[client].slotlog.has_data()]
            settled = answered == expected and blocked + len(answered) == len(self._waiting)
            if settled or time.monotonic() > deadline:
                return answered
            time.sleep(_POLL_S)


def _blocked(side: RawConnection) -> int:
    """How many clients wait."""
    (frame,) = side.ask(encoded(["INFO", "clients"]), 1)
    lines = (bulk(frame) or b"").split(b"\r\n")
    return int(next(line for line in lines if line.startswith(b"blocked_clients:")).partition(b":")[2])


def _number(frames: Sequence[bytes]) -> int:
    return int(frames[0][1:])
