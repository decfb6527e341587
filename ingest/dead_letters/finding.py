"""Dead letters, found again and sent again. How they are stored is in `ingest.dead_letters.stores`.

A letter that was sent again is marked, never removed:

    embedded  a row of the table `redriven` in the log's file, in one transaction with the append
    Kafka     one more letter in `<topic>.dlq`, of the same position, without key and value, whose reason begins with
              `redriven to`; the record itself has the header `slotlog.redrive`, TOPIC/PARTITION/OFFSET of the letter
"""

from __future__ import annotations

from ingest.dead_letters.embedded_finding import LocalLetters
from ingest.dead_letters.found import Letters
from ingest.dead_letters.letter import DeadLetters
from ingest.log.embedded.embedded_log import LocalLog
from ingest.log.log import Log


def open_letters(log: Log, dead_letters: DeadLetters) -> Letters:
    """The letters of `log`, whose place is `dead_letters`; both are started before the first question.

    Raises:
        TypeError: neither the embedded log nor Kafka.
    """
    if isinstance(log, LocalLog):
        return LocalLetters(log)
    from ingest.dead_letters.kafka_finding import KafkaLetters  # noqa: PLC0415
    from ingest.dead_letters.kafka_store import KafkaDeadLetters  # noqa: PLC0415 - aiokafka takes 0.1 s to import
    from ingest.log.kafka.kafka_log import KafkaLog  # noqa: PLC0415

    if isinstance(log, KafkaLog) and isinstance(dead_letters, KafkaDeadLetters):
        return KafkaLetters(log, dead_letters)
    raise TypeError(f"no dead letters of {log!r}")
