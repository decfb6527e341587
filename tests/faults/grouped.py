"""Workers of one group as processes, and clients that follow MOVED and send nothing twice."""

from __future__ import annotations

import threading
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from time import monotonic, sleep

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from slotlog.shared.slots import partition_of, slot
from tests.faults.service import ServiceProcess

_PATIENCE_SECONDS = 60.0
_PAUSE_SECONDS = 0.05


class GroupedWorker(ServiceProcess):
    """A `slotlog serve --group`.

    Attributes:
        port: of its Redis clients.
        data: its state.
        http: where its page is; empty: nowhere.
        replica_port: of clients that take it for a replica; 0: there is none.
    """

    def __init__(
        self,
        home: Path,
        log_url: str,
        topic: str,
        port: int,
        partitions: int,
        *,
        session_seconds: float,
        instance: str = "",
        standbys: int = 0,
        replica_port: int = 0,
        sentinel_port: int = 0,
        processes: int = 1,
        variables: Mapping[str, str] | None = None,
        http: str = "",
        group: str = "",
        program: Sequence[str] = ("ops.cli",),
    ) -> None:
        self.port, self.data, self.http, self.replica_port = port, home, http, replica_port
        options = [
            "--data",
            home,
            "--log",
            log_url,
            "--topic",
            topic,
            "--partitions",
            partitions,
            "--group",
            group or f"{topic}-g",
            "--standbys",
            standbys,
            "--processes",
            processes,
        ]
        environment = {
            "SLOTLOG_LOG_LEVEL": "info",
            "SLOTLOG_GROUP__SESSION_SECONDS": str(session_seconds),
            "SLOTLOG_GROUP__INSTANCE": instance,
            "SLOTLOG_KAFKA__GROUP": f"{topic}-offsets",
            "SLOTLOG_REDIS__REPLICA": f"127.0.0.1:{replica_port}" if replica_port else "",
            "SLOTLOG_REDIS__SENTINEL": f"127.0.0.1:{sentinel_port}" if sentinel_port else "",
            **(variables or {}),
        }
        super().__init__([*map(str, options), "--http", http, "--resp", f"127.0.0.1:{port}"], environment, program)

    def is_ready(self) -> bool:
        """What `/readyz` answers."""
        try:
            with urllib.request.urlopen(f"http://{self.http}/readyz", timeout=5) as answer:
                return bool(answer.status == HTTPStatus.OK)
        except OSError:  # as is a status of 503
            return False

    def owners(self) -> dict[int, int]:
        """The ports of owners by the first slot of a range, as this worker has it; empty if it does not answer."""
        return {first: ports[0] for first, ports in self.nodes().items()}

    def nodes(self) -> dict[int, list[int]]:
        """As `owners`, with the ports of their replicas behind them."""
        connection = connect(self.port)
        try:
            ranges = connection.execute_command("CLUSTER SLOTS", NEVER_DECODE=[])  # type: ignore[no-untyped-call]
        except redis.RedisError:
            return {}
        finally:
            connection.close()
        return {first: [int(port) for _, port, *_ in nodes] for first, _, *nodes in ranges}


def connect(port: int) -> redis.Redis:
    """A client that repeats nothing by itself."""
    return redis.Redis(port=port, retry=Retry(NoBackoff(), 0), socket_timeout=10, protocol=2)


class Counting(threading.Thread):
    """A client that raises a counter in each partition until it is stopped, one request at a time.

    Attributes:
        acknowledged, doubtful: by key: requests that were answered, and those of which nobody knows.
    """

    def __init__(self, ports: Iterable[int], keys: Iterable[str]) -> None:
        super().__init__()
        self.acknowledged = dict.fromkeys(keys, 0)
        self.doubtful = dict.fromkeys(self.acknowledged, 0)
        self._ports = list(ports)
        self._connections: dict[int, redis.Redis] = {}
        self._places: dict[str, int] = {}
        self._ends = threading.Event()

    def run(self) -> None:
        """Raise one counter after the other."""
        while not self._ends.is_set():
            for key in self.acknowledged:
                self._raise(key)

    def stop(self) -> None:
        """End after the request under way."""
        self._ends.set()
        self.join()
        for connection in self._connections.values():
            connection.close()

    def wait_for_more(self, requests: int) -> None:
        """Wait until each counter has been raised so often again."""
        wanted = {key: count + requests for key, count in self.acknowledged.items()}
        until = monotonic() + _PATIENCE_SECONDS
        while any(self.acknowledged[key] < count for key, count in wanted.items()):
            assert monotonic() < until, (wanted, self.acknowledged)
            sleep(_PAUSE_SECONDS)

    def read(self, key: str) -> int:
        """A counter, from whoever owns it now."""
        until = monotonic() + _PATIENCE_SECONDS
        while monotonic() < until:
            port = self._places.get(key, self._ports[0])
            try:
                return int(self._to(port).get(key) or 0)
            except redis.RedisError as error:
                self._learn(key, port, error)
        raise AssertionError(f"nobody answers for {key}")

    def finds(self, key: str) -> int:
        """The port of a counter's owner."""
        self.read(key)
        return self._places.get(key, self._ports[0])

    def _raise(self, key: str) -> None:
        port = self._places.get(key, self._ports[0])
        try:
            self._to(port).incr(key)
        except redis.RedisError as error:
            if not isinstance(error, redis.ResponseError) or "UNKNOWNOUTCOME" in str(error):
                self.doubtful[key] += 1
            self._learn(key, port, error)
        else:
            self.acknowledged[key] += 1

    def _learn(self, key: str, port: int, error: Exception) -> None:
        """Where to go next: where MOVED says, else to any worker."""
        if isinstance(error, redis.exceptions.MovedError):
            self._places[key] = error.port
            return
        self._connections.pop(port, None)
        self._places[key] = self._ports[(self._ports.index(port) + 1) % len(self._ports)]
        sleep(_PAUSE_SECONDS)

    def _to(self, port: int) -> redis.Redis:
        return self._connections.setdefault(port, connect(port))


def keys_of(partitions: int) -> list[str]:
    """A key in each partition."""
    found: dict[int, str] = {}
    number = 0
    while len(found) < partitions:
        found.setdefault(partition_of(slot(b"n%d" % number), partitions), f"n{number}")
        number += 1
    return [found[partition] for partition in range(partitions)]
