"""`slotlog digest`."""

from __future__ import annotations

from ops.cli.options import Data, Json, LogUrl, Partitions, Topic, print_json, reports_errors
from ops.config import load_settings


@reports_errors
def digest(
    *, data: Data = None, log: LogUrl = None, topic: Topic = None, partitions: Partitions = None, json: Json = False
) -> None:
    """Print a digest of everything that is alive in a state directory, and the position that it stands for.

    Equal digests at equal positions mean equal content, whatever the batches, the layout or the cleaning was.

    Example: slotlog digest --data .data
    """
    from engine.digest import Digest
    from ops.logging import configure_logging
    from ops.state import digest_partition

    settings = load_settings(data=data, log=log, topic=topic, partitions=partitions)
    configure_logging(settings.log_level)
    total, positions = Digest(), []
    for partition in settings.owned:
        result, position = digest_partition(settings, partition)
        total += result
        positions.append({"partition": partition, "next_offset": position.next_offset, "clock_ms": position.clock_ms})
    if json:
        print_json({"digest": str(total), "keys": total.keys, "partitions": positions})
        return
    print(f"{total}  {total.keys} keys")
    for at in positions:
        print(f"partition {at['partition']}: next offset {at['next_offset']}, clock {at['clock_ms']} ms")
