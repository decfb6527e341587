"""`slotlog repartition`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ops.cli.options import Data, Json, LogUrl, StatePartitions, StateTopic, print_json, reports_errors
from ops.config import PARTITIONS_MAX, ConfigError
from slotlog.wording import counted


@reports_errors
def repartition(
    *,
    to_topic: Annotated[str, typer.Option(metavar="NAME", help="The new topic.")],
    to_partitions: Annotated[int, typer.Option(metavar="N", min=1, max=PARTITIONS_MAX, help="Its partitions.")],
    to: Annotated[Path, typer.Option(metavar="DIR", help="A new directory, for the state of the new topic.")],
    to_log: Annotated[
        str | None, typer.Option(metavar="URL", help="The log of the new topic.", show_default="--log, if it is Kafka")
    ] = None,
    data: Data = None,
    log: LogUrl = None,
    topic: StateTopic = None,
    partitions: StatePartitions = None,
    json: Json = False,
) -> None:
    """Move to another number of partitions: fill a new topic with the keys of a state, and build its state.

    Stop whoever writes, then the service. --data has to have all that is in the log, of every partition. The command
    fails if anything comes into the old topic meanwhile, and unless the new state has the same keys, values and times
    to live. Then start the service on the new topic with the new directory. The old topic and state stay as they are.

    Idempotency keys, dead letters and scripts that are in no library are not carried over.

    Example: slotlog repartition --data .data --to-topic orders-12 --to-partitions 12 --to .data-12
    """
    from ops.exporting.repartition import repartition as run
    from ops.logging import configure_logging
    from ops.state.opening.recorded import load_state_settings
    from slotlog.log import embedded_path

    old = load_state_settings(data=data, log=log, topic=topic, partitions=partitions)
    configure_logging(old.log_level)
    if to_log is None and embedded_path(old.log_url) is not None:
        raise ConfigError("an embedded log is a file for one topic: say with --to-log which one is to be the new one")
    log_url = to_log or old.log_url
    if (log_url, to_topic) == (old.log_url, old.topic):
        raise ConfigError(f"{to_topic} is the topic that is to be copied: name another one")
    new = old.model_copy(
        update={"log": log_url, "topic": to_topic, "partitions": to_partitions, "own": "", "own_of": ""}
    )
    done = run(old, new, to)
    if json:
        counts = {"keys": done.keys, "events": done.events, "digest": str(done.digest)}
        print_json({"to": str(to), "topic": to_topic, "partitions": to_partitions, **counts})
        return
    print(f"{to_topic}: {counted(done.keys, 'key')} in {counted(done.events, 'event')}, digest {done.digest}")
    print(f"start: slotlog serve --data {to} --log {log_url} --topic {to_topic} --partitions {to_partitions}")
