"""`slotlog serve`."""

from __future__ import annotations

from typing import Annotated

import typer

from ops.cli.options import Data, Index, Json, Layout, LogUrl, Partitions, Topic, reports_errors
from ops.config import Settings, load_settings


@reports_errors
def serve(
    *,
    data: Data = None,
    log: LogUrl = None,
    topic: Topic = None,
    partitions: Partitions = None,
    layout: Layout = None,
    index: Index = None,
    own: Annotated[str | None, typer.Option(help="Partitions to apply, such as 0-3.", show_default="all")] = None,
    own_of: Annotated[
        str | None, typer.Option(metavar="I/N", help="Instead of --own: the share of process I (from 0) of N.")
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Instead of --own: the Kafka group that shares the partitions out."),
    ] = None,
    standbys: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, max=9, help="Of a group: followers of each partition.", show_default="0"),
    ] = None,
    zone: Annotated[
        str | None, typer.Option(help="Of a group: where this worker runs; a partition's copies are in several.")
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(metavar="N", help="Processes that share the partitions, on ports of their own.", show_default="1"),
    ] = None,
    http: Annotated[
        str | None,
        typer.Option(help="Address of status page and /metrics; '' for none.", show_default="127.0.0.1:8640"),
    ] = None,
    resp: Annotated[
        str | None, typer.Option(help="Address for Redis clients; '' for none.", show_default="127.0.0.1:6379")
    ] = None,
    peers: Annotated[
        str | None, typer.Option(help="Which worker owns which partitions: 0-1=host:6379,2-3=host:6380.")
    ] = None,
    json: Json = False,
) -> None:
    """Apply the log's events to the state, and serve Redis clients, until SIGTERM or Ctrl-C.

    Example: slotlog serve --data /var/lib/slotlog --log kafka://127.0.0.1:9092 --topic orders --partitions 8 --own 0-3
    """
    if own_of is not None and own is not None:
        raise typer.BadParameter("--own names partitions, --own-of computes them: give only one of the two")
    if own_of is not None:
        own = ""  # what the environment or the file says of it gives way
    settings = load_settings(
        data=data,
        log=log,
        topic=topic,
        partitions=partitions,
        layout=layout,
        index=index,
        own=own,
        own_of=own_of,
        processes=processes,
        http=http,
        resp=resp,
    )
    if peers is not None:
        settings.redis.peers = peers
    if group is not None:
        settings.group.name = group
    if standbys is not None:
        settings.group.standbys = standbys
    if zone is not None:
        settings.group.zone = zone
    settings.refuse_group()
    _run(settings, json=True if json else None)


def _run(settings: Settings, *, json: bool | None) -> None:
    """Run a service, or what supervises several, until its end."""
    import uvloop

    from ops.logging import configure_logging
    from ops.serving.process import tune_collector
    from ops.serving.service import Service

    tune_collector()  # the modules of a service have only now been imported
    configure_logging(settings.log_level, json=json)

    async def run() -> None:
        if settings.processes > 1:
            from ops.serving.processes.supervisor import Supervisor

            await Supervisor(settings, json=json).run()
        else:
            await Service(settings).run()

    uvloop.run(run())
