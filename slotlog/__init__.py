"""The client library: commands in, durable events out, over Kafka or a log in a SQLite file.

    from slotlog import Producer, open_log

    log = open_log("kafka://broker:9092", topic="board", partitions=4)
    await log.start()
    async with Producer(log) as producer:
        await producer.send("HSET", "user:42", "name", "Ann", id="signup-42")   # queued
        await producer.send_and_wait("INCR", "visits")                          # in the log for good
    await log.close()

Code without an event loop takes `SyncProducer`. What stands in `__all__` is the interface; all else may change.
docs/client.md has more. It needs msgpack and aiokafka alone, and imports nothing of the server.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from slotlog.errors import (
        AppendUncertainError,
        CrossSlotError,
        ErasedError,
        LogDamagedError,
        LogMismatchError,
        LogUnavailableError,
        Mismatch,
        ProducerClosedError,
        RecordTooLargeError,
        TimeAheadError,
        WallClockMovedError,
    )
    from slotlog.log import KafkaSettings, Log, RecordPosition, open_log
    from slotlog.producer import Producer, SyncProducer
    from slotlog.sealing import KeyFile, KeyStore, Personal, Sealer
    from slotlog.shared.errors import EventError

__all__ = [
    "AppendUncertainError",
    "CrossSlotError",
    "ErasedError",
    "EventError",
    "KafkaSettings",
    "KeyFile",
    "KeyStore",
    "Log",
    "LogDamagedError",
    "LogMismatchError",
    "LogUnavailableError",
    "Mismatch",
    "Personal",
    "Producer",
    "ProducerClosedError",
    "RecordPosition",
    "RecordTooLargeError",
    "Sealer",
    "SyncProducer",
    "TimeAheadError",
    "WallClockMovedError",
    "open_log",
]

_HOMES: Final = ("slotlog.log", "slotlog.producer", "slotlog.sealing", "slotlog.shared.errors", "slotlog.errors")
"""The modules of these names. They load at first use, as the engine imports `slotlog.shared` and may load no I/O."""


def __getattr__(name: str) -> Any:
    """The public name, from its module."""
    if name in __all__:
        for home in map(import_module, _HOMES):
            if hasattr(home, name):
                globals()[name] = value = getattr(home, name)
                return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names, for interactive use."""
    return __all__
