"""Finds dead letters and sends them again. How they are stored is in `ingest.dead_letters.stores`.

A dead letter that was sent again is marked, never removed:

    embedded  a row of the table `redriven` in the log's file, in one transaction with the append
    Kafka     one more letter in `<topic>.dlq`, of the same position, without key and value, whose reason begins with
              `redriven to`; the record itself has the header `slotlog.redrive`, TOPIC/PARTITION/OFFSET of the letter
"""

from __future__ import annotations

from ingest.dead_letters.dead_letter import DeadLetters
from ingest.dead_letters.embedded_finding import EmbeddedDeadLetterSearch
from ingest.dead_letters.found import DeadLetterSearch
from slotlog.log.embedded.embedded_log import EmbeddedLog
from slotlog.log.log import Log


def open_search(log: Log, dead_letters: DeadLetters) -> DeadLetterSearch:
    """The dead letters of `log`, whose place is `dead_letters`; both are started before the first question.

    Raises:
        TypeError: neither the embedded log nor Kafka.
    """
    if isinstance(log, EmbeddedLog):
        return EmbeddedDeadLetterSearch(log)
    from ingest.dead_letters.kafka_finding import KafkaDeadLetterSearch  # noqa: PLC0415
    from ingest.dead_letters.kafka_store import KafkaDeadLetters  # noqa: PLC0415 - aiokafka takes 0.1 s to import
    from slotlog.log.kafka.kafka_log import KafkaLog  # noqa: PLC0415

    if isinstance(log, KafkaLog) and isinstance(dead_letters, KafkaDeadLetters):
        return KafkaDeadLetterSearch(log, dead_letters)
    raise TypeError(f"no dead letters of {log!r}")
