"""A load on a service that moves every metric: clients of all kinds, and foreign events."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from itertools import count
from threading import Event, Thread
from types import TracebackType
from typing import Final, Self

from slotlog.events import encode
from slotlog.log import Entry, open_log
from tests.real.oracle import Connection, ErrorReply, request

_PAUSE_S: Final = 0.1  # some hundred commands in each round: a machine that runs other tests, too, can keep up
_ELEMENTS: Final = 200
EARLIER_KEYS: Final = 1000
"""Strings `early:0` and on, which are read: they have to be there already, and on the disk."""

Command = tuple[str | int, ...]


class Load:
    """Clients and a producer that run until the end of the `with`.

    Args:
        address: of the RESP server of a standalone service.
        log_url: of its embedded log.
        topic: of that log.
    """

    def __init__(self, address: tuple[str, int], log_url: str, topic: str) -> None:
        self._address = address
        self._log_url = log_url
        self._topic = topic
        self._end = Event()
        self._threads = [Thread(target=self._run, args=(part,)) for part in (self._clients, self._producer)]
        self._waiting: list[socket.socket] = []
        self._failures: list[Exception] = []

    def __enter__(self) -> Self:
        for command in (("BLPOP", "nothing", "0"), ("SUBSCRIBE", "news")):
            waiting = socket.create_connection(self._address)
            waiting.sendall(request(command))
            self._waiting.append(waiting)
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()
        for waiting in self._waiting:
            waiting.close()

    def last(self, seconds: float) -> None:
        """Go on for so long. Raises what the clients or the producer met, as soon as they do."""
        self._end.wait(seconds)
        if self._failures:
            raise self._failures[0]

    def _run(self, part: Callable[[], None]) -> None:
        try:
            part()
        except Exception as error:  # noqa: BLE001 - it is raised where the load is waited for
            self._failures.append(error)
            self._end.set()

    def _clients(self) -> None:
        for number in count():
            if self._end.wait(_PAUSE_S):
                return
            connection = Connection(self._address)  # a new one each time: they are counted, too
            try:
                replies = connection.pipeline(list(commands(number)))
            finally:
                connection.close()
            assert 1 == sum(isinstance(reply, ErrorReply) for reply in replies), replies

    def _producer(self) -> None:
        asyncio.run(self._produce())

    async def _produce(self) -> None:
        log = open_log(self._log_url, topic=self._topic, partitions=1)
        await log.start()
        for number in count():
            if self._end.is_set():
                break
            events = [encode("HSET", [f"user:{n}", "visits", number]) for n in range(20)]
            twice = encode("INCR", ["orders"], id=f"order-{number}")
            await log.append([Entry(0, b"\0\0", value) for value in (*events, twice, twice, b"\xff")])
            await asyncio.sleep(_PAUSE_S)
        await log.close()


def commands(number: int) -> Iterator[Command]:
    """One round: all types, reads that hit and miss, keys that die, a collection that is dropped, one error."""
    key = number % 50
    yield "SET", f"s{key}", number
    yield "SET", f"short{number}", 1, "PX", 300
    yield "INCRBY", "counter", 2
    yield "GET", f"s{key}"
    yield "GET", "nosuch"
    yield "GET", f"early:{number % EARLIER_KEYS}"
    yield "HSET", f"h{key}", "field", number
    yield "HSET", f"due{number}", "field", 1
    yield "HPEXPIRE", f"due{number}", 300, "FIELDS", 1, "field"
    yield "RPUSH", f"large{key}", *range(_ELEMENTS)
    yield "LRANGE", f"large{key}", 0, -1
    yield "DEL", f"large{key}"
    yield "SADD", f"set{key}", *range(20)
    yield "SISMEMBER", f"set{key}", 3
    yield "ZADD", f"z{key}", number, "member"
    yield "ZRANGE", f"z{key}", 0, -1
    yield "PFADD", f"p{key}", number
    yield "RPUSH", "a list", 1
    yield "LTRIM", "a list", 0, 9
    yield "INCR", "a list"  # the error
    yield ("MULTI",)
    yield "INCR", "in a transaction"
    yield ("EXEC",)
    yield "PUBLISH", "news", "hello"
    yield ("PING",)
    yield ("INFO",)
