"""Clients that write numbered values to the owners of their keys, and know of each what was said of it.

Each value is pushed to a list once, and sent once. Afterwards a list must hold every value that was acknowledged once,
in the order of its writes, perhaps those whose outcome was unknown, and none that was refused.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic, sleep
from typing import Any, Final

import redis

from tests.faults.grouped import connect

PATIENCE_SECONDS: Final = 120.0
_PAUSE_SECONDS: Final = 0.05


@dataclass(slots=True)
class Written:
    """What was said of the values of one key."""

    acknowledged: list[int] = field(default_factory=list)
    doubtful: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)

    def faults_of(self, found: Sequence[int]) -> list[str]:
        """What of a list is not as it must be."""
        known, faults = {*self.acknowledged}, []
        if lost := known - {*found}:
            faults.append(f"acknowledged, and not there: {sorted(lost)[:10]}")
        if len({*found}) < len(found):
            faults.append(f"twice: {sorted(each for each in {*found} if found.count(each) > 1)[:10]}")
        if said_not := self.refused & {*found}:
            faults.append(f"refused, and there: {sorted(said_not)[:10]}")
        if [each for each in found if each in known] != self.acknowledged and not faults:
            faults.append("not in the order in which they were acknowledged")
        return faults


class Writer(threading.Thread):
    """Pushes to one list for each key until it is stopped, some values at a time.

    Args:
        ports: of the workers.
        keys: a list each.
        depth: values that are sent at once.

    Attributes:
        written: by key.
        errors: the texts of refusals and doubts, each once, with how many values it was said of.
    """

    def __init__(self, ports: Sequence[int], keys: Sequence[str], depth: int = 1) -> None:
        super().__init__(daemon=True)
        self.written = {key: Written() for key in keys}
        self.errors: dict[str, int] = {}
        self._ports = list(ports)
        self._depth = depth
        self._next = 0
        self._places = dict.fromkeys(keys, self._ports[0])
        self._connections: dict[int, redis.Redis] = {}
        self._ends = threading.Event()

    def run(self) -> None:
        """Write to one key after the other."""
        while not self._ends.is_set():
            for key in self.written:
                self._write(key)

    def stop(self) -> None:
        """End after the request under way."""
        self._ends.set()
        self.join()
        for connection in self._connections.values():
            connection.close()

    @property
    def acknowledged(self) -> int:
        """How many values were, in all."""
        return sum(len(each.acknowledged) for each in self.written.values())

    def wait_for_more(self, values: int) -> None:
        """Wait until so many more values of each key are acknowledged."""
        wanted = {key: len(each.acknowledged) + values for key, each in self.written.items()}
        until = monotonic() + PATIENCE_SECONDS
        while left := [key for key, count in wanted.items() if len(self.written[key].acknowledged) < count]:
            assert monotonic() < until, (left, self.errors)
            assert self.is_alive(), self.errors
            sleep(_PAUSE_SECONDS)

    def faults(self, found: Mapping[str, Sequence[int]]) -> dict[str, list[str]]:
        """What is wrong with the lists, by key; nothing, if all is well."""
        return {key: faults for key, each in self.written.items() if (faults := each.faults_of(found[key]))}

    def _write(self, key: str) -> None:
        values = list(range(self._next, self._next + self._depth))
        self._next += self._depth
        written, port = self.written[key], self._places[key]
        replies = self._replies(port, key, values)
        for value, reply in zip(values, replies, strict=True):
            if not isinstance(reply, Exception):
                written.acknowledged.append(value)
                continue
            text = str(reply)
            self.errors[text] = self.errors.get(text, 0) + 1
            is_answer = isinstance(reply, redis.ResponseError) and "UNKNOWNOUTCOME" not in text
            (written.refused if is_answer else written.doubtful).add(value)
        if isinstance(replies[-1], Exception):
            self._learn(key, port, replies[-1])

    def _replies(self, port: int, key: str, values: list[int]) -> list[Any]:
        """What was said of each; an exception where it was an error, or nothing."""
        if port not in self._connections:
            self._connections[port] = connect(port)
        pipeline = self._connections[port].pipeline(transaction=False)
        for value in values:
            pipeline.rpush(key, value)
        try:
            return list(pipeline.execute(raise_on_error=False))
        except redis.RedisError as error:
            return [error] * len(values)

    def _learn(self, key: str, port: int, error: Exception) -> None:
        """Where to go next: where MOVED says, else to any worker."""
        if isinstance(error, redis.exceptions.MovedError):
            self._places[key] = error.port
            return
        if not isinstance(error, redis.ResponseError):
            self._connections.pop(port).close()
        self._places[key] = self._ports[(self._ports.index(port) + 1) % len(self._ports)]
        sleep(_PAUSE_SECONDS)


def lists(ports: Sequence[int], keys: Sequence[str]) -> dict[str, list[int]]:
    """The lists of these keys, from whoever owns each now."""
    found: dict[str, list[int]] = {}
    port, until = ports[0], monotonic() + PATIENCE_SECONDS
    for key in keys:
        while key not in found:
            connection = connect(port)
            try:
                found[key] = [int(each) for each in connection.lrange(key, 0, -1)]
            except redis.exceptions.MovedError as error:
                port = error.port
            except redis.RedisError:
                if monotonic() > until:
                    raise
                port = ports[(ports.index(port) + 1) % len(ports)]
                sleep(_PAUSE_SECONDS)
            finally:
                connection.close()
    return found
