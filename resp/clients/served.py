"""The partitions into which commands may take the short way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from engine.apply.hot_path import HotPath
from engine.apply.machine import Machine
from resp.writes.answers import Answers
from resp.writes.outbox import Outbox
from resp.writes.write_pipeline import WritePipeline


class Served(NamedTuple):
    """A partition that takes everything, as the short way sees it. C knows the fields by their places.

    Attributes:
        machine: answers reads.
        hot_path: the part in C of it; None: Python alone.
        pipeline: takes writes.
        outbox, answers: of the pipeline.
    """

    machine: Machine
    hot_path: HotPath | None
    pipeline: WritePipeline
    outbox: Outbox
    answers: Answers


def served_of(pipelines: Mapping[int, WritePipeline], partitions: int) -> tuple[Served | None, ...]:
    """By partition, those that take reads and writes now; empty if there is none."""
    served = tuple([_served(pipelines.get(partition)) for partition in range(partitions)])
    return served if any(served) else ()


def _served(pipeline: WritePipeline | None) -> Served | None:
    if pipeline is None or not pipeline.owned.worker.is_open or pipeline.refusal(write=True) is not None:
        return None
    machine = pipeline.machine
    return Served(machine, machine.hot_path, pipeline, pipeline.local_writes.outbox, pipeline.answers)
