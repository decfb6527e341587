"""All links of one worker: begins and ends them, says when a worker fails, and forwards messages of Pub/Sub."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from resp.cluster.bus import wire
from resp.cluster.bus.link import BEATS_A_TIMEOUT, Dial, Link, Loss
from resp.cluster.bus.peers import OwnPartitions, Peers
from resp.cluster.nodes import NodeHealth
from resp.wire.tls import client_context

if TYPE_CHECKING:
    from resp.settings.config import Config
    from resp.settings.startup import RespSettings
    from slotlog.log import Log

_CLOSE_SECONDS: Final = 1.0

logger = structlog.get_logger(__name__)


class OwnWorker(OwnPartitions, Protocol):
    """The worker whose links these are.

    Attributes:
        settings: secrets, and how long another worker may be silent.
        config: has the password that is changed later.
        log: its topic is that of all workers.
    """

    settings: RespSettings
    config: Config
    log: Log


class Bus:
    """The links of one server to the other workers of its topic; none in standalone mode, or without peers.

    Args:
        server: whose they are.

    Attributes:
        links: by node id.
        peers: what is known of the workers at their other ends.
        received: messages that other workers have handed over.
        answered: questions of other workers that were answered.
        on_applied: told before which offset of a partition its owner has applied everything; None: nobody asks.
    """

    def __init__(self, server: OwnWorker) -> None:
        self.links: dict[str, Link] = {}
        self.peers = Peers(server, self.links)
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

    # ------------------------------------------------------------------ inside

    def _use_password(self, password: str) -> None:
        """Log in with another one from now on; links that are up stay."""
        self._password = password

    async def _watch(self, seconds: float) -> None:
        """Say so when a worker fails, or is back."""
        while True:
            for node_id, link in list(self.links.items()):
                before, now = self._health.get(node_id, NodeHealth.ONLINE), self.peers.health_of(link)
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
