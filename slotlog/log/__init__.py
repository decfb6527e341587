"""The log: embedded (SQLite) or Kafka, behind the protocol of `slotlog.log.log`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from slotlog.log.kafka.settings import KafkaSettings
from slotlog.log.log import Entry, Headers, HeadersOf, Log, LogRecord, Reader, RecordPosition

if TYPE_CHECKING:
    from slotlog.log.embedded.embedded_log import EmbeddedLog
    from slotlog.log.kafka.kafka_log import KafkaLog

__all__ = [
    "Entry",
    "Headers",
    "HeadersOf",
    "KafkaSettings",
    "Log",
    "LogRecord",
    "Reader",
    "RecordPosition",
    "embedded_path",
    "open_kafka",
    "open_log",
]


def open_log(
    url: str, *, topic: str, partitions: int, kafka: KafkaSettings | None = None, create: bool = True
) -> EmbeddedLog | KafkaLog:
    """The log at `url`, not started yet.

    Args:
        url: `sqlite:///FILE` (a relative path; `sqlite:////FILE` an absolute one) or `kafka://HOST:PORT[,HOST:PORT…]`.
        topic: its name; the embedded log keeps it and refuses another.
        partitions: how many it must have.
        kafka: how to reach Kafka; ignored for the embedded log.
        create: whether `start` may create it.

    Raises:
        ValueError: a URL that is neither.
    """
    # Each is imported when it is wanted: aiokafka alone takes 0.1 s and 5 MB, which every `slotlog query` would pay.
    if (path := embedded_path(url)) is not None:
        from slotlog.log.embedded.embedded_log import EmbeddedLog  # noqa: PLC0415

        return EmbeddedLog(path, topic=topic, partitions=partitions, create=create)
    scheme, separator, rest = url.partition("://")
    if scheme == "kafka" and separator and rest:
        return open_kafka(rest, topic=topic, partitions=partitions, settings=kafka or KafkaSettings(), create=create)
    raise ValueError(f"a log is sqlite:///FILE or kafka://HOST:PORT[,HOST:PORT...], not {scheme + separator!r}…")


def open_kafka(servers: str, *, topic: str, partitions: int, settings: KafkaSettings, create: bool = True) -> KafkaLog:
    """The log that is a topic of Kafka, not started yet: what is imported without Kafka calls this for one.

    Args:
        servers: `HOST:PORT[,HOST:PORT…]`.
        topic: its name.
        partitions: how many it must have.
        settings: how to reach Kafka.
        create: whether `start` may create it.
    """
    from slotlog.log.kafka.kafka_log import KafkaLog  # noqa: PLC0415

    return KafkaLog(servers, topic=topic, partitions=partitions, settings=settings, create=create)


def embedded_path(url: str) -> Path | None:
    """The file of the embedded log at `url`; None where it is no embedded one."""
    scheme, separator, rest = url.partition("://")
    return Path(rest[1:]) if scheme == "sqlite" and separator and len(rest) > 1 and rest[0] == "/" else None
