"""Finds the partition that a client's command is for: by its keys, or all of them where it has none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from engine.errors import CommandError
from resp.cluster.all_partitions import AllPartitions
from resp.cluster.topology import ClusterMap
from resp.writes.replica_pipeline import ReplicaPipeline
from resp.writes.stopping import READ_ONLY, WAITS_FOR_GROUP
from resp.writes.write_pipeline import WritePipeline
from slotlog.shared.errors import CROSS_SLOT
from slotlog.shared.slots import partition_of, slot


class Reader(Protocol):
    """A session that reads."""

    @property
    def reads_replicas(self) -> bool:
        """Whether its reads may be answered where partitions are followed."""
        ...

    @property
    def at_replica(self) -> bool:
        """Whether it has come to this worker as to a replica."""
        ...


class Router:
    """Finds partitions for commands, or the worker that has them.

    Args:
        pipelines: of the partitions that this worker owns, by partition.
        replicas: of those that it follows.
        partitions: of the log; with one there is no cluster.
        cluster_map: gives who owns what, as of now.

    Attributes:
        owned, followed: what commands without a key act on.
    """

    def __init__(
        self,
        pipelines: Mapping[int, WritePipeline],
        replicas: Mapping[int, ReplicaPipeline],
        partitions: int,
        cluster_map: Callable[[], ClusterMap],
    ) -> None:
        self.owned, self.followed = AllPartitions(pipelines, partitions), AllPartitions(replicas, partitions)
        self._pipelines, self._replicas = pipelines, replicas
        self._partitions, self._clustered = partitions, partitions > 1
        self._cluster_map = cluster_map

    def pipeline_of(self, keys: list[bytes]) -> WritePipeline:
        """The partition of these keys.

        Raises:
            CommandError: CROSSSLOT, MOVED to whoever has them, or READONLY where another worker has everything.
        """
        if not self._clustered:
            if not self._pipelines:
                cluster = self._cluster_map()
                raise WAITS_FOR_GROUP if cluster.owner_of(0) in {None, cluster.me.address} else READ_ONLY
            return self._pipelines[0]
        if not keys:
            if not self._pipelines:
                raise CommandError("CLUSTERDOWN this worker owns no partition now")
            return next(iter(self._pipelines.values()))
        number = slot(keys[0])
        if any(slot(key) != number for key in keys):
            raise CommandError(CROSS_SLOT)
        pipeline = self._pipelines.get(partition_of(number, self._partitions))
        if pipeline is not None:
            return pipeline
        cluster = self._cluster_map()
        owner = cluster.owner_of(number)
        if owner is None or owner == cluster.me.address:  # a group has given it to this worker a moment ago
            raise CommandError("CLUSTERDOWN Hash slot not served")
        raise CommandError(f"MOVED {number} {owner[0]}:{owner[1]}")

    def reader_of(self, session: Reader, keys: list[bytes]) -> WritePipeline:
        """The partition of these keys for a session's read: one that is followed here, too, where it allows that.

        Raises:
            CommandError: as `pipeline_of`.
        """
        if not (self._clustered or self._pipelines):
            if not self._replicas:
                raise WAITS_FOR_GROUP
            return self._replicas[0]
        if self._replicas and not keys and session.at_replica:
            return next(iter(self._replicas.values()))
        if self._replicas and keys and session.reads_replicas:
            number = slot(keys[0])
            replica = self._replicas.get(partition_of(number, self._partitions))
            if replica is not None and replica.is_ready and all(slot(key) == number for key in keys):
                return replica
        return self.pipeline_of(keys)

    def keyspace_of(self, session: Reader) -> AllPartitions:
        """All partitions that a session's commands without a key see: owned ones, or at a replica, followed ones."""
        return self.followed if session.at_replica else self.owned
