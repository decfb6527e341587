"""All links of one worker: finds failed workers and forwards messages of Pub/Sub.

Redis' words: a node that has not answered for the node time-out is suspected (`fail?`), by this worker alone; once a
majority of the others who own slots say the same, it has failed. With two workers that majority is whoever is left.
Nothing but what is told depends on it: slots are not given to others, and clients are still sent to their owner.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from resp.cluster.bus import wire
from resp.cluster.bus.link import BEATS_A_TIMEOUT, Dial, Link, Loss
from resp.cluster.nodes import Node, NodeHealth, Replica, Seen
from resp.statistics.partitions import applied_offsets
from resp.wire.tls import client_context

if TYPE_CHECKING:
    from resp.cluster.topology import ClusterMap
    from resp.settings.config import Config
    from resp.settings.startup import Address, RespSettings
    from resp.writes.replica_pipeline import ReplicaPipeline
    from resp.writes.write_pipeline import WritePipeline
    from slotlog.log import Log

_CLOSE_SECONDS: Final = 1.0

logger = structlog.get_logger(__name__)


class OwnWorker(Protocol):
    """The worker whose links these are.

    Attributes:
        settings: secrets, and how long another worker may be silent.
        config: has the password that is changed later.
        log: its topic is that of all workers.
        cluster: which worker has which slots.
        pipelines: of the partitions of this worker.
        replicas: of those that it follows.
        run_id: of this process.
    """

    settings: RespSettings
    config: Config
    log: Log
    cluster: ClusterMap
    pipelines: dict[int, WritePipeline]
    replicas: dict[int, ReplicaPipeline]
    run_id: str

    @property
    def held(self) -> tuple[int, ...]:
        """The partitions that are served, or whose last writes are not answered yet."""
        ...


class Bus:
    """The links of one server to the other workers of its topic; none in standalone mode, or without peers.

    Args:
        server: whose they are.

    Attributes:
        links: by node id.
        received: messages that other workers have handed over.
        answered: questions of other workers that were answered.
        on_applied: told before which offset of a partition its owner has applied everything; None: nobody asks.
    """

    def __init__(self, server: OwnWorker) -> None:
        self.links: dict[str, Link] = {}
        self.received = self.answered = 0
        self.on_applied: Callable[[int, int], None] | None = None
        self._server = server
        self._password = server.settings.password
        self._health: dict[str, NodeHealth] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._watching: asyncio.Task[None] | None = None
        self._dial: Dial | None = None

    # ------------------------------------------------------------------ life

    def start(self) -> None:
        """Begin to call every other worker that the server's map names.

        Raises:
            ValueError: the TLS files are no good.
        """
        server, settings = self._server, self._server.settings
        cluster = server.cluster
        for warning in () if settings.grouped else cluster.warnings:
            logger.warning("peers", warning=warning)
        if len(cluster.nodes) == 1 and not settings.grouped:
            return
        server.config.on_change("requirepass", self._use_password)
        self._dial = Dial(
            wire.hello(server.log.topic, settings.partitions, cluster.me.node_id, server.run_id),
            settings.peer_user,
            lambda: settings.peer_password or self._password,
            client_context(settings) if settings.tls_cluster else None,
            settings.node_timeout_seconds,
        )
        self._watching = asyncio.create_task(self._watch(settings.node_timeout_seconds / BEATS_A_TIMEOUT))
        self.follow()

    def follow(self) -> None:
        """Call the workers that the server's map names now, and no others."""
        cluster = self._server.cluster
        others = {node.node_id: node for node in cluster.nodes if node is not cluster.me}
        for node_id in self.links.keys() - others.keys():
            self._tasks.pop(node_id).cancel()
            self.links.pop(node_id).give_up()
            self._health.pop(node_id, None)
        for node_id, node in others.items():
            if link := self.links.get(node_id):
                link.node = node
            elif self._dial is not None:
                self.links[node_id] = link = Link(node, self._dial, self._heard)
                self._tasks[node_id] = asyncio.create_task(link.run())
        owners = {replica.master.node_id for replica in cluster.replicas if replica.worker is cluster.me}
        for node_id, link in self.links.items():
            link.follows = node_id in owners

    def has_let_go(self, address: Address, partition: int, since: float) -> bool:
        """Whether the worker there has said that it does not hold a partition, at or after a monotonic time."""
        for link in self.links.values():
            if link.node.address == address:
                link.hurry()
                return link.beat is not None and link.heard_at >= since and partition not in link.beat.own
        return False

    def held_at(self, address: Address, partition: int) -> float:
        """When the worker there said that it holds a partition, if that was the last that it said; else 0."""
        for link in self.links.values():
            if link.node.address == address and link.beat is not None and partition in link.beat.own:
                return link.heard_at
        return 0.0

    async def close(self) -> None:
        """Send what can be sent at once, and close every link."""
        until = monotonic() + _CLOSE_SECONDS
        while any(link.is_up and link.waiting_bytes for link in self.links.values()) and monotonic() < until:  # noqa: ASYNC110 - a second at most, at the end
            await asyncio.sleep(0.005)
        tasks = [*self._tasks.values(), *([] if self._watching is None else [self._watching])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for link in self.links.values():
            link.give_up()

    def called_by(self, node_id: str) -> None:
        """Another worker has called."""
        if link := self.links.get(node_id):
            link.call_back()

    # ------------------------------------------------------------------ messages

    def publish(self, channel: bytes, message: bytes) -> None:
        """Hand a message to every other worker, whose clients may listen."""
        if self.links:
            data = wire.publish(channel, message)
            for link in self.links.values():
                link.send(data)

    @property
    def sent(self) -> int:
        """Messages that other workers have taken."""
        return sum(link.sent for link in self.links.values())

    def lost(self, loss: Loss) -> int:
        """Messages that did not reach another worker, for this reason."""
        return sum(link.lost[loss] for link in self.links.values())

    @property
    def messages_sent(self) -> int:
        """All that went to other workers, questions and answers as well."""
        return self.sent + self.answered + sum(link.beats for link in self.links.values())

    @property
    def messages_received(self) -> int:
        """All that came from other workers."""
        return self.received + self.answered + sum(link.beats for link in self.links.values())

    # ------------------------------------------------------------------ who is there

    def beat(self) -> wire.Beat:
        """What this worker says of itself."""
        server = self._server
        failing = tuple(node_id for node_id, link in self.links.items() if link.is_silent)
        applied = {
            partition: position.next_offset
            for partition, pipeline in server.pipelines.items()
            if (position := pipeline.owned.committed) is not None
        }
        return wire.Beat(
            server.run_id,
            server.held,
            self.is_loading,
            applied_offsets(server.pipelines),
            failing,
            applied,
            {partition: replica.answers_at for partition, replica in server.replicas.items() if replica.is_ready},
            tuple(partition for partition, pipeline in server.pipelines.items() if pipeline.is_coming),
        )

    @property
    def is_loading(self) -> bool:
        """Whether a partition of this worker is being opened, or behind what was in the log at its start."""
        return any(pipeline.is_coming for pipeline in self._server.pipelines.values())

    def reports(self, node: Node) -> int:
        """How many of the other workers say that this one does not answer them."""
        links = self.links.values()
        return sum(
            link.beat is not None and node.node_id in link.beat.failing
            for link in links
            if not link.is_silent and link.node.partitions
        )

    def seen(self, node: Node) -> Seen:
        """How a worker looks from here."""
        link = self.links.get(node.node_id)
        if link is None:
            return Seen(loading=self.is_loading, offset=applied_offsets(self._server.pipelines))
        beat = link.beat
        return Seen(
            health=self._health_of(link),
            connected=link.is_up,
            loading=beat is not None and beat.loading,
            offset=0 if beat is None else beat.offset,
            asked_ms=link.asked_ms,
            answered_ms=link.answered_ms,
        )

    def seen_replica(self, replica: Replica) -> Seen:
        """How a replica looks from here."""
        seen = self.seen(replica.worker)
        offsets = [self.followed_to(replica.worker, partition) for partition in replica.partitions]
        there = [offset for offset in offsets if offset is not None]
        return replace(seen, loading=len(there) < len(offsets), offset=sum(there))

    def followed_to(self, worker: Node, partition: int) -> int | None:
        """The offset before which a follower has applied everything; None: it does not say so, or not any more."""
        link = self.links.get(worker.node_id)
        if link is None:
            replica = self._server.replicas.get(partition)
            return replica.answers_at if replica is not None and replica.is_ready else None
        return link.beat.follows.get(partition) if link.is_up and link.beat is not None else None

    def serves(self, worker: Node, partition: int) -> bool:
        """Whether a worker takes commands in a partition, as far as it has said so."""
        link = self.links.get(worker.node_id)
        if link is None:
            pipeline = self._server.pipelines.get(partition)
            return pipeline is not None and pipeline.refusal(write=True) is None
        beat = link.beat
        return link.is_up and beat is not None and partition in beat.own and partition not in beat.opening

    def is_taking(self, worker: Node, partition: int) -> bool:
        """Whether a worker that answers does not serve a partition yet, as far as it has said so; it is asked anew."""
        link = self.links.get(worker.node_id)
        if link is None or not link.is_up or link.beat is None:
            return False
        if partition in link.beat.own and partition not in link.beat.opening:
            return False
        link.hurry()
        return True

    def hurry(self, worker: Node) -> None:
        """Ask a worker soon how it is."""
        if link := self.links.get(worker.node_id):
            link.hurry()

    def heard_seconds(self, worker: Node) -> float:
        """How long ago a worker last said how it is."""
        link = self.links.get(worker.node_id)
        return 0.0 if link is None else max(0.0, monotonic() - link.heard_at)

    def count(self, health: NodeHealth) -> int:
        """How many of the other workers are so."""
        return sum(self._health_of(link) is health for link in self.links.values())

    # ------------------------------------------------------------------ inside

    def _use_password(self, password: str) -> None:
        """Log in with another one from now on; links that are up stay."""
        self._password = password

    def _health_of(self, link: Link) -> NodeHealth:
        if not link.is_silent:
            return NodeHealth.ONLINE
        cluster = self._server.cluster
        voters = sum(bool(node.partitions) for node in cluster.nodes if node is not link.node)
        votes = self.reports(link.node) + bool(cluster.me.partitions)
        return NodeHealth.FAILED if votes > voters // 2 else NodeHealth.SUSPECTED

    async def _watch(self, seconds: float) -> None:
        """Say so when a worker fails, or is back."""
        while True:
            for node_id, link in list(self.links.items()):
                before, now = self._health.get(node_id, NodeHealth.ONLINE), self._health_of(link)
                if now is not before:
                    self._health[node_id] = now
                    self._changed(link, now)
            await asyncio.sleep(seconds)

    def _changed(self, link: Link, health: NodeHealth) -> None:
        log = logger.info if health is NodeHealth.ONLINE else logger.warning
        node = link.node
        log(
            "peer",
            address=f"{node.host}:{node.port}",
            node=node.node_id,
            partitions=list(node.partitions),
            health=str(health),
            reason=link.reason,
        )
        if health is NodeHealth.FAILED:
            link.give_up()

    def _heard(self, link: Link) -> None:
        """An answer has come: hold what the worker says of itself against the map."""
        assert link.beat is not None
        if self._server.settings.grouped:
            if self.on_applied is not None:
                for partition, offset in link.beat.applied.items():
                    self.on_applied(partition, offset)
            return  # the group says who owns what; a worker lets go a moment later
        if link.beat.own not in {link.node.partitions, link.own_told}:
            link.own_told = link.beat.own
            logger.warning(
                "peer_owns_others",
                address=f"{link.node.host}:{link.node.port}",
                peers=list(link.node.partitions),
                own=list(link.beat.own),
                hint="its --own and SLOTLOG_REDIS__PEERS here do not fit: clients are sent to the wrong worker",
            )
