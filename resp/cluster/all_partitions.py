"""Runs commands without a key, in cluster mode, on all partitions of this worker.

How many replies become one stands in the tips of the command: `response_policy:agg_sum` adds them, `special` takes any
of them, and no policy joins arrays. `agg_logical_and` is SCRIPT EXISTS': a worker has a script that any of its
partitions has, as EVALSHA finds it from each of them.
Without any tip one partition that answers is enough. `request_policy:special` is SCAN's: its cursor goes from partition
to partition.
Source: https://redis.io/docs/latest/develop/reference/command-tips/.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from engine.batch.cursors import DIGEST_BITS
from engine.commands.generic.scans import parse_cursor
from engine.commands.registry import Spec
from engine.errors import CommandError
from engine.values.replies import Reply
from slotlog.shared.limits import SLOTS
from slotlog.shared.slots import partition_of, slot_range

if TYPE_CHECKING:
    from resp.writes.write_pipeline import WritePipeline


class AllPartitions:
    """All write pipelines of a worker as one keyspace.

    Args:
        pipelines: by partition, ascending.
        partitions: of the log.
    """

    def __init__(self, pipelines: Mapping[int, WritePipeline], partitions: int) -> None:
        self._pipelines = pipelines
        self._partitions = partitions

    def read(self, spec: Spec, args: list[bytes], wall_ms: int) -> Reply:
        """The reply of a keyless read: as a cluster's client would have it that does what the command's tips say.

        Raises:
            CommandError: its own error.
        """
        if "request_policy:special" in spec.tips:
            return self._scan(spec, args, wall_ms)
        if not spec.tips:
            return self._first(spec, args, wall_ms)
        replies = [_read(pipeline, spec, args, wall_ms) for pipeline in self._pipelines.values()]
        if "response_policy:agg_sum" in spec.tips:
            return sum(replies)
        if "response_policy:agg_logical_and" in spec.tips:
            return [max(each) for each in zip(*replies, strict=True)]
        if "response_policy:special" in spec.tips:
            return _any(replies)
        return [item for items in replies for item in items]

    def _first(self, spec: Spec, args: list[bytes], wall_ms: int) -> Reply:
        """The reply of the first partition that has one.

        Raises:
            CommandError: none has.
        """
        error = CommandError("ERR there is no partition here")
        for pipeline in self._pipelines.values():
            try:
                return _read(pipeline, spec, args, wall_ms)
            except CommandError as refusal:
                error = refusal
        raise error

    async def write(self, name: bytes, args: list[bytes]) -> Reply:
        """Append a keyless event to every partition of this worker; the first error, if any.

        Each partition has its own event: some may have happened when another failed.

        Raises:
            CommandError: one of them takes nothing now; nothing was written.
        """
        pipelines = list(self._pipelines.values())
        for pipeline in pipelines:
            refusal = pipeline.refusal(write=True)
            if refusal is not None:
                raise refusal
        if not pipelines:
            raise CommandError("CLUSTERDOWN this worker owns no partition now")
        replies = [await pipeline.write(name, args) for pipeline in pipelines]
        return next((reply for reply in replies if isinstance(reply, CommandError)), replies[0])

    def _scan(self, spec: Spec, args: list[bytes], wall_ms: int) -> Reply:
        """SCAN of the partition that the cursor's slot lies in; at its end, on with the next one's first slot."""
        cursor = parse_cursor(args[0])
        partition = partition_of(cursor >> DIGEST_BITS & (SLOTS - 1), self._partitions)
        later = [number for number in self._pipelines if number >= partition]
        if not later:
            return [b"0", []]
        pipeline = self._pipelines[later[0]]
        if later[0] != partition or not cursor:
            args = [b"%d" % self._first_cursor(later[0]), *args[1:]]
        found: list[Any] = _read(pipeline, spec, args, wall_ms)
        if found[0] == b"0" and len(later) > 1:
            found = [b"%d" % self._first_cursor(later[1]), found[1]]
        return found

    def _first_cursor(self, partition: int) -> int:
        return slot_range(partition, self._partitions)[0] << DIGEST_BITS


def _any(replies: list[Reply]) -> Reply:
    """One of those that are not nil, at random; nil when there is none."""
    there = [reply for reply in replies if reply is not None]
    return secrets.choice(there) if there else None


def _read(pipeline: WritePipeline, spec: Spec, args: list[bytes], wall_ms: int) -> Any:
    refusal = pipeline.refusal(write=False)
    if refusal is not None:
        raise refusal
    return pipeline.read(spec, args, 0, wall_ms)
