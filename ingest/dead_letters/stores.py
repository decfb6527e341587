"""Stores dead letters whole, with their reason, before the position moves past them.

    Kafka     the topic `<topic>.dlq`: original key, value and headers, and after these, as texts, the headers
              slotlog.error, slotlog.topic, slotlog.partition, slotlog.offset, slotlog.time
              (one that is larger than the topic takes is cut, which slotlog.truncated says)
    embedded  the table `dead_letters` of the log's file

Storing is at least once: a crash between it and the commit of the state stores a letter again. The table keeps one row
for a position; in the topic the headers tell that two are the same.
"""

from __future__ import annotations

from ingest.dead_letters.dead_letter import DeadLetters
from ingest.dead_letters.embedded_store import EmbeddedDeadLetters
from slotlog.log.embedded.embedded_log import EmbeddedLog
from slotlog.log.log import Log


def open_dead_letters(log: Log) -> DeadLetters:
    """The dead-letter store of `log`, not started yet.

    Raises:
        TypeError: neither the embedded log nor Kafka.
    """
    if isinstance(log, EmbeddedLog):
        return EmbeddedDeadLetters(log)
    from ingest.dead_letters.kafka_store import KafkaDeadLetters  # noqa: PLC0415 - aiokafka takes 0.1 s to import
    from slotlog.log.kafka.kafka_log import KafkaLog  # noqa: PLC0415

    if isinstance(log, KafkaLog):
        return KafkaDeadLetters(log)
    raise TypeError(f"no place for dead letters of {log!r}")
