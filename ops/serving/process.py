"""Settings of the whole slotlog process."""

from __future__ import annotations

import gc
import os
import secrets
import socket
from pathlib import Path
from typing import Final

_YOUNG_OBJECTS_MAX: Final = 10_000


def process_name(data: Path) -> str:
    """What this process is called among all that may apply the same topic: its machine, its state, and what is its own.

    No two processes have the same, nor has one that is started again.
    """
    return f"{socket.gethostname()}:{data.resolve()}#{os.getpid()}-{secrets.token_hex(4)}"


def tune_collector() -> None:
    """Let the cyclic garbage collector look around less often.

    An event is a few tuples and lists, which go by their reference counts. With Python's own threshold of 700 objects
    the collector walks over them three times a batch, and never has anything to do: 0.9 of 14 us an event, measured on
    HSET from Kafka, of which this saves 0.5. Cycles, as exceptions and tasks leave them, are found a little later.

    Nor does it look again at what is there now, the modules imported so far: 1 % of the instructions of an event. Who
    imports more before a long run, as `slotlog serve` does, calls this again.
    """
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS_MAX, 10, 10)
