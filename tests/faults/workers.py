"""Several workers of one topic, each a `slotlog serve` of its own, that know of each other."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tests.faults.service import ServiceProcess
from tests.ops.verbs import metric, wait_until
from tests.real.oracle import Connection
from tests.real.process import free_ports

NODE_TIMEOUT_S: Final = "1"


class WorkerProcess:
    """One worker, which can be killed and started again with the same options.

    Args:
        port: for Redis clients.
        options: of `slotlog serve`.
    """

    def __init__(self, port: int, options: Sequence[str]) -> None:
        self.port = port
        self.options = options
        self.service: ServiceProcess | None = None

    def start(self) -> None:
        """Start it, and wait until it has opened its partitions."""
        environment = {"SLOTLOG_REDIS__NODE_TIMEOUT_SECONDS": NODE_TIMEOUT_S}
        self.service = ServiceProcess(self.options, environment)
        self.service.wait_for("started")

    def connect(self) -> Connection:
        """A new client."""
        return Connection(("127.0.0.1", self.port))

    def call(self, *words: str) -> Any:
        """One command on a connection of its own."""
        with closing(self.connect()) as connection:
            return connection.call(*words)

    def info(self) -> dict[str, str]:
        """CLUSTER INFO."""
        lines = self.call("CLUSTER", "INFO").decode().splitlines()
        return dict(line.split(":") for line in lines)

    def metric(self, name: str, labels: str = "") -> float:
        """A value of /metrics."""
        return self.metrics(name)[labels]

    def metrics(self, name: str) -> dict[str, float]:
        """The values of a metric by labels."""
        assert self.service is not None
        return metric(self.service, name)

    def kill(self) -> None:
        """SIGKILL."""
        assert self.service is not None
        self.service.kill()
        self.service.__exit__(None, None, None)  # it has said everything

    def restart(self) -> None:
        """SIGTERM, and start it again when it has ended in order."""
        assert self.service is not None
        assert 0 == self.service.terminate()
        self.service.__exit__(None, None, None)
        self.start()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.service is not None:
            self.service.__exit__(kind, error, trace)


def new_topic() -> str:
    """A name that no other test has: the broker is that of all."""
    return f"workers-{uuid.uuid4().hex}"


def worker_options(
    data: Path, log_url: str, topic: str, port: int, partitions: int, own: int | str, peers: str = ""
) -> list[str]:
    """The options of one worker."""
    options = ["--data", str(data), "--log", log_url, "--topic", topic, "--partitions", str(partitions)]
    options += ["--own", str(own), "--resp", f"127.0.0.1:{port}", "--http", "127.0.0.1:0"]
    return [*options, "--peers", peers] if peers else options


@contextmanager
def running_workers(directory: Path, count: int, log_url: str) -> Iterator[list[WorkerProcess]]:
    """Workers of a topic with a partition each, whose links are up."""
    topic, ports = new_topic(), free_ports(count)
    peers = ",".join(f"{partition}=127.0.0.1:{port}" for partition, port in enumerate(ports))
    with ExitStack() as stack:
        workers = [
            WorkerProcess(
                port, worker_options(directory / f"data-{number}", log_url, topic, port, count, number, peers)
            )
            for number, port in enumerate(ports)
        ]
        for worker in workers:
            stack.enter_context(worker)
        for worker in workers:
            wait_until(lambda: len(links_of(worker)) == count - 1, "links")  # noqa: B023 - called at once
        yield workers


def links_of(worker: WorkerProcess) -> list[Any]:
    """The connections to other workers that are up."""
    return [link for link in worker.call("CLUSTER", "LINKS") if link[1] == b"to"]
