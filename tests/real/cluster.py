"""Three real Kafka brokers that are one cluster, with links to each that can be cut.

Each is broker and controller. Clients reach a broker through one link alone, and the other brokers, which copy what it
leads, through another one, as these are the addresses that it advertises. Controllers talk directly.
"""

from __future__ import annotations

import asyncio
import base64
import re
import shutil
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self, TypeVar

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError

from tests.real.broker import KafkaBroker
from tests.real.link import Link
from tests.real.process import ServerError, free_ports

NODES: Final = (1, 2, 3)
_WITHIN_SECONDS: Final = 120.0
_POLL_SECONDS: Final = 0.1
_REQUEST_MS: Final = 5_000

T = TypeVar("T")

_PROPERTIES: Final = MappingProxyType(
    {
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "BROKERS",
        "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "default.replication.factor": "3",
        "min.insync.replicas": "2",
        "offsets.topic.replication.factor": "3",
        "transaction.state.log.replication.factor": "3",
        "transaction.state.log.min.isr": "2",
        # A broker that hangs loses what it leads after the first of these, and its place among the replicas after the
        # second: 9 s and 30 s by default.
        "broker.session.timeout.ms": "3000",
        "replica.lag.time.max.ms": "4000",
        "controller.quorum.election.timeout.ms": "2000",
        "controller.quorum.fetch.timeout.ms": "3000",
        "controlled.shutdown.retry.backoff.ms": "500",
        "offsets.topic.segment.bytes": str(1 << 20),
        "log.index.size.max.bytes": str(1 << 16),  # two files of 10 MiB are made anew for each segment otherwise
        "num.network.threads": "1",
        "num.io.threads": "2",
    }
)


class KafkaCluster:
    """Three brokers, each to be killed, stopped, paused and started again at will.

    Args:
        directory: an empty one, for their data.
        properties: settings over those above.

    Attributes:
        brokers, links: by node.
        inner: the links to each from the other brokers.
    """

    def __init__(self, directory: Path, properties: Mapping[str, str] | None = None) -> None:
        ports = iter(free_ports(5 * len(NODES)))
        own = {node: [next(ports) for _ in range(5)] for node in NODES}
        voters = ",".join(f"{node}@127.0.0.1:{controller}" for node, (_, _, controller, *_) in own.items())
        self._directories = {node: directory / str(node) for node in NODES}
        self.brokers: dict[int, KafkaBroker] = {}
        self.links: dict[int, Link] = {}
        self.inner: dict[int, Link] = {}
        for node, (clients, others, controller, link, inner) in own.items():
            self._directories[node].mkdir()
            self.links[node], self.inner[node] = Link(link, clients), Link(inner, others)
            listeners = f"CLIENTS://127.0.0.1:{clients},BROKERS://127.0.0.1:{others}"
            settings = {
                **_PROPERTIES,
                "node.id": str(node),
                "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller}",
                "advertised.listeners": f"CLIENTS://127.0.0.1:{link},BROKERS://127.0.0.1:{inner}",
                "controller.quorum.voters": voters,
                **(properties or {}),
            }
            self.brokers[node] = KafkaBroker(self._directories[node], settings, port=clients)

    @property
    def bootstrap(self) -> str:
        """The addresses of all links."""
        return ",".join(f"127.0.0.1:{link.port}" for link in self.links.values())

    def start(self) -> None:
        """Start all, and wait until each of them counts."""
        for link in (*self.links.values(), *self.inner.values()):
            link.start()
        self._format()
        self.start_brokers(*NODES)

    def start_brokers(self, *nodes: int) -> None:
        """Start some at the same time, and wait until the cluster has them."""
        with ThreadPoolExecutor(len(nodes)) as threads:
            for started in [threads.submit(self.brokers[node].start) for node in nodes]:
                started.result()
        self.wait_for_brokers(*nodes)

    def stop(self) -> None:
        """End all at once: nobody reads their data any more."""
        for broker in self.brokers.values():
            broker.kill()
        for link in (*self.links.values(), *self.inner.values()):
            link.stop()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def wait_for_brokers(self, *nodes: int) -> None:
        """Wait until the cluster names these brokers."""
        _run(self._until(lambda client: _has_brokers(client, nodes)))

    def wait_for_replicas(self, topic: str) -> None:
        """Wait until each partition of a topic has a leader, and all its replicas are in sync."""
        _run(self._until(lambda client: _is_in_sync(client, topic)))

    def leaders(self, topic: str) -> dict[int, int]:
        """The node that leads each partition of a topic; those that nobody leads are left out."""
        described = _run(self._asked(lambda client: client.describe_topics([topic])))
        leaders = {each["partition"]: each["leader"] for each in described[0]["partitions"]}
        return {partition: node for partition, node in leaders.items() if node in NODES}

    def coordinator(self, group: str) -> int:
        """The node that coordinates a group."""
        return int(_run(self._asked(lambda client: client.find_coordinator(group))))

    def create_topic(self, name: str, replicas: Mapping[int, list[int]], settings: Mapping[str, str]) -> None:
        """Create a topic whose partitions have these replicas, the first one to lead."""
        topic = NewTopic(name, -1, -1, replica_assignments=dict(replicas), topic_configs=dict(settings))
        answer = _run(self._asked(lambda client: client.create_topics([topic])))
        assert [0] == [code for _, code, *_ in answer.topic_errors], answer
        self.wait_for_replicas(name)

    # ------------------------------------------------------------------ inside

    def _format(self) -> None:
        """Format the first one's storage, and copy it, as Java takes two seconds for each: names alone differ."""
        first, *others = NODES
        self.brokers[first].format()
        for node in others:
            data = self._directories[node] / "data"
            shutil.copytree(self._directories[first] / "data", data)
            properties = (data / "meta.properties").read_text()
            name = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            properties = re.sub(r"node\.id=\d+", f"node.id={node}", properties)
            (data / "meta.properties").write_text(re.sub(r"directory\.id=.*", f"directory.id={name}", properties))

    async def _asked(self, question: Callable[[AIOKafkaAdminClient], Awaitable[T]]) -> T:
        """What the brokers that run say; again where one has gone a moment ago."""
        until = asyncio.get_running_loop().time() + _WITHIN_SECONDS
        while True:
            try:
                return await self._asked_once(question)
            except (KafkaError, OSError):
                if asyncio.get_running_loop().time() > until:
                    raise
            await asyncio.sleep(_POLL_SECONDS)

    async def _asked_once(self, question: Callable[[AIOKafkaAdminClient], Awaitable[T]]) -> T:
        running = [f"127.0.0.1:{self.links[node].port}" for node, broker in self.brokers.items() if broker.running]
        client = AIOKafkaAdminClient(bootstrap_servers=",".join(running), request_timeout_ms=_REQUEST_MS)
        try:
            await client.start()
            return await question(client)
        finally:
            await client.close()

    async def _until(self, is_so: Callable[[AIOKafkaAdminClient], Awaitable[bool]]) -> None:
        until = asyncio.get_running_loop().time() + _WITHIN_SECONDS
        while not await self._asked(is_so):
            if asyncio.get_running_loop().time() > until:
                raise ServerError(f"the cluster is not as it was to be within {_WITHIN_SECONDS} s")
            await asyncio.sleep(_POLL_SECONDS)


async def _has_brokers(client: AIOKafkaAdminClient, nodes: tuple[int, ...]) -> bool:
    return {*nodes} <= {broker["node_id"] for broker in (await client.describe_cluster())["brokers"]}


async def _is_in_sync(client: AIOKafkaAdminClient, topic: str) -> bool:
    (described,) = await client.describe_topics([topic])
    partitions = described["partitions"]
    return bool(partitions) and all(
        each["leader"] in NODES and {*each["isr"]} == {*each["replicas"]} for each in partitions
    )


def _run(asked: Coroutine[Any, Any, T]) -> T:
    """Beside a test's event loop in a thread of its own."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, asked).result()
