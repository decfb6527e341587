"""Changes the roles of partitions while they are applied: taken as owner or follower, given up.

A follower applies no further than the owner has said that it has: so all dead letters up to there are sent, and who
takes over begins with what is left. It sends none itself, appends no ticks, and serves nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import structlog

from ingest.applying.partitions.conditions import Conditions
from ingest.applying.partitions.live_partitions import LivePartitions
from ingest.applying.partitions.owned_partition import OwnedPartition
from ingest.membership.plan import Role
from ingest.reporting.observer import Condition
from slotlog.log import LogRecord, Reader

logger = structlog.get_logger(__name__)


class Roles:
    """The roles of a process's partitions. The consumer's loop lets them change between two batches.

    Args:
        every: all partitions that the process may ever apply, with the role that each has at the start.

    Attributes:
        applied: those that it applies now.
        owned: those of them that it owns.
    """

    def __init__(self, every: Mapping[int, OwnedPartition]) -> None:
        self.applied = LivePartitions(every, {Role.OWNER, Role.FOLLOWER})
        self.owned = LivePartitions(every, {Role.OWNER})
        self._every = every
        self._wanted: dict[int, Role] = {}
        self._changed = asyncio.Event()

    async def assume(self, partition: int, role: Role) -> None:
        """Let a partition have another role, and wait until it has.

        One that is taken is opened by the loop, as one is that was stopped; one that is given up is closed.
        """
        self._wanted[partition] = role
        while self._wanted.get(partition) is role:
            await self._changed.wait()

    def take_effect(self, conditions: Conditions, reader: Reader) -> None:
        """Between two batches: change what is to be changed."""
        if not self._wanted:
            return
        for partition, role in self._wanted.items():
            self._change(partition, role, conditions, reader)
        self._wanted.clear()
        self._changed.set()
        self._changed = asyncio.Event()

    def hold_back(self, reader: Reader) -> None:
        """Let followers wait that are where their owner is, and the others go on."""
        for partition, owned in self.applied.items():
            if owned.role is not Role.FOLLOWER or owned.condition is not Condition.RUNNING:
                continue
            waits = owned.worker.machine.next_offset >= owned.owner_offset
            if waits and not owned.waits_for_owner:
                reader.pause(partition)
            elif owned.waits_for_owner and not waits:
                self._go_on(partition, owned, reader)
            owned.waits_for_owner = waits

    def _change(self, partition: int, role: Role, conditions: Conditions, reader: Reader) -> None:
        owned = self._every[partition]
        before = owned.role
        if before is role:
            return
        owned.worker.speak(aloud=role is Role.OWNER)
        if before is Role.OWNER or role is Role.NONE:  # all that goes on in its machine ends; a follower opens it anew
            conditions.let_go(partition, reader)
        owned.role = role
        owned.waits_for_owner = False
        self._go_on(partition, owned, reader)
        self.applied.refresh()
        self.owned.refresh()
        logger.info("role", partition=partition, role=str(role), before=str(before))

    @staticmethod
    def _go_on(partition: int, owned: OwnedPartition, reader: Reader) -> None:
        if owned.condition is Condition.RUNNING:
            reader.seek(partition, owned.worker.machine.next_offset)
            reader.resume(partition)


def to_be_applied(
    partition: int, owned: OwnedPartition, reader: Reader, records: list[LogRecord]
) -> tuple[list[LogRecord], int]:
    """The records of a fetch that are to be applied now, and the offset where they end.

    A follower goes no further than its owner has: what is cut off is read again.
    """
    to_offset = reader.position(partition)
    if owned.role is not Role.FOLLOWER or to_offset <= owned.owner_offset:
        return records, to_offset
    end = max(owned.worker.machine.next_offset, owned.owner_offset)
    reader.seek(partition, end)
    return [record for record in records if record[0] < end], end
