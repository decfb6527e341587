"""SCRIPT KILL, FUNCTION KILL and FUNCTION STATS: the scripts and functions that run now on this worker.

What reads without an event can be ended. An event ends as at every replay: at its end, or at a limit.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from engine.commands.scripting.library_code import ENGINE
from engine.errors import CommandError
from engine.values.replies import OK, Map, Reply
from resp.commands.cluster.cluster import Cluster
from resp.commands.handlers import Client, server_command
from resp.statistics.partitions import script_figures

if TYPE_CHECKING:
    from resp.writes.write_pipeline import WritePipeline

_NOT_BUSY: Final = "NOTBUSY No scripts in execution right now."
_EVENT: Final = "UNKILLABLE The script is an event of the log: every replay runs it to its end, or to its limit."
_BUSY: Final = "BUSY Redis is busy running a script. You can only call {} KILL or SHUTDOWN NOSAVE."
_KILLED: Final = "ERR Script killed by user with {} KILL."
_NAMES: Final = {False: "SCRIPT", True: "FUNCTION"}

_command = partial(
    server_command,
    group="scripting",
    flags=("noscript", "allow_busy"),
    categories=("slow", "scripting"),
    immediate=True,
    container=True,
)
_kill = partial(_command, tips=("request_policy:all_shards", "response_policy:one_succeeded"))


@_kill("SCRIPT KILL", since="2.6.0")
def script_kill(client: Client[Cluster], args: list[bytes]) -> Reply:
    """End the scripts that read on this worker without an event. What is an event goes on to its end or limit."""
    return _end_reads(client.server, functions=False)


@_kill("FUNCTION KILL", since="7.0.0")
def function_kill(client: Client[Cluster], args: list[bytes]) -> Reply:
    """End the functions that read on this worker without an event. What is an event goes on to its end or limit."""
    return _end_reads(client.server, functions=True)


@_command("FUNCTION STATS", since="7.0.0", tips=("request_policy:all_shards", "response_policy:special"))
def function_stats(client: Client[Cluster], args: list[bytes]) -> Reply:
    """What runs, and how many libraries and functions there are."""
    figures = script_figures(client.server.pipelines)
    lua = Map([(b"libraries_count", figures.libraries), (b"functions_count", figures.functions)])
    running = next((pipeline for pipeline in _busy(client.server) if _is_function(pipeline)), None)
    return Map([(b"running_script", running and _described(running)), (b"engines", Map([(ENGINE, lua)]))])


def _end_reads(server: Cluster, *, functions: bool) -> Reply:
    """End what reads, of one kind, in all partitions."""
    busy = _busy(server)
    if not busy:
        raise CommandError(_NOT_BUSY)
    wanted = [pipeline for pipeline in busy if _is_function(pipeline) == functions]
    if not wanted:
        raise CommandError(_BUSY.format(_NAMES[not functions]))
    reads = [pipeline for pipeline in wanted if pipeline.machine.scripts.applied is None]
    if not reads:
        raise CommandError(_EVENT)
    for pipeline in reads:
        pipeline.machine.scripts.kill(_KILLED.format(_NAMES[functions]))
    return OK


def _busy(server: Cluster) -> list[WritePipeline]:
    """The partitions in which a script or function runs now: it is suspended, as this command runs."""
    opened = [pipeline for pipeline in server.pipelines.values() if pipeline.owned.worker.is_open]
    return [pipeline for pipeline in opened if pipeline.machine.scripts.running is not None]


def _is_function(pipeline: WritePipeline) -> bool:
    call = pipeline.machine.scripts.running
    return call is not None and bool(call.function)


def _described(pipeline: WritePipeline) -> Map:
    """The function that runs in a partition, with the command that would call it."""
    call = pipeline.machine.scripts.running
    assert call is not None
    words: list[Reply] = [b"FCALL", call.function, b"%d" % len(call.keys), *call.keys, *call.args]
    milliseconds = round(pipeline.owned.worker.gate.held_seconds * 1000)
    return Map([(b"name", call.function), (b"command", words), (b"duration_ms", milliseconds)])
