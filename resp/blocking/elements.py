"""Asks the state which elements the keys of blocked clients have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from engine.commands.fills import EITHER, Fill, StoredKey
from engine.commands.registry import SPECS, Spec
from engine.errors import CommandError, DueError
from engine.model import LIST, NONE, SET, STREAM, TYPE_NAMES, ZSET
from engine.values.replies import Reply

if TYPE_CHECKING:
    from ingest.applying.slicing.slices import Slices
    from resp.cluster.router import Router
    from resp.writes.write_pipeline import WritePipeline

LENGTH: Final = {LIST: SPECS[b"LLEN"], ZSET: SPECS[b"ZCARD"], SET: SPECS[b"SCARD"], STREAM: SPECS[b"XLEN"]}
"""By type code: the command that counts the elements of a key."""

_TYPE: Final = SPECS[b"TYPE"]
_TYPE_CODES: Final = {name.encode(): type_code for type_code, name in TYPE_NAMES.items()}


class Partitions(Protocol):
    """The partitions of the worker.

    Attributes:
        partitions: of the log, how many.
        pipelines: of those that this worker owns.
        slices: in which commands run.
        wall_ms: the wall clock, as of late.
        router: finds those of keys.
    """

    partitions: int
    pipelines: dict[int, WritePipeline]
    slices: Slices
    wall_ms: int
    router: Router

    def witness(self) -> None:
        """Let the machines say which keys they touch, while anybody needs that."""
        ...


class Elements:
    """The keys of the partitions, as blocked clients see them: what is due by the wall clock is gone.

    Args:
        partitions: the worker's.
    """

    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions

    def counted(self, pipeline: WritePipeline, fill: Fill) -> tuple[int, int]:
        """The type of what a write may bring, and at most how many elements, by its sources and the state."""
        if not fill.sources:
            held = NONE if fill.type == EITHER else self.type_of(pipeline, fill.db, fill.key)
            return fill.type, fill.elements if held in {NONE, fill.type} else 0
        lengths = {source: self._any_length(pipeline, source, fill.type) for source in fill.sources}
        type_code = fill.type
        if type_code == EITHER:
            ((db, key),) = fill.sources
            type_code = self.type_of(pipeline, db, key)
        return type_code, min(fill.elements, sum(lengths.values()))

    def _any_length(self, pipeline: WritePipeline, source: StoredKey, filled: int) -> int:
        """How many elements it may give a key that then has the type `filled`: a stream gives none to another type."""
        type_code = self.type_of(pipeline, *source)
        gives = type_code in LENGTH and (type_code != STREAM or filled == EITHER)
        return self.length(pipeline, *source, type_code) if gives else 0

    def type_of(self, pipeline: WritePipeline, db: int, key: bytes) -> int:
        """The type code of what the key holds; NONE if there is nothing, or its partition is closed."""
        name: Any = self.read(pipeline, _TYPE, [key], db)
        return _TYPE_CODES.get(name, NONE)

    def length(self, pipeline: WritePipeline, db: int, key: bytes, type_code: int) -> int:
        """How many elements the key has, if it holds that type; else 0."""
        try:
            length: int = self.read(pipeline, LENGTH[type_code], [key], db)
        except CommandError:  # it holds another type now: nothing for those who wait
            return 0
        return length

    def read(self, pipeline: WritePipeline, spec: Spec, args: list[bytes], db: int) -> Reply:
        """The reply of a command that changes nothing; 0 where the partition is closed.

        Raises:
            CommandError: its own.
        """
        if not pipeline.owned.worker.is_open:
            return 0
        try:
            return pipeline.read(spec, args, db, self._partitions.wall_ms)
        except DueError:
            return pipeline.read(spec, args, db, at_ms=self._partitions.wall_ms)
