"""Dead letters in the Kafka topic `<topic>.dlq`, of one partition. See `ingest.dead_letters`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ingest.dead_letters import DeadLetter
from ingest.log.base import Headers, LogRecord
from ingest.log.kafka import KafkaLog
from ingest.log.kafka_appender import Outgoing
from ingest.log.kafka_topic import MESSAGE_BYTES_MAX

SUFFIX: Final = ".dlq"
_OWN_HEADERS: Final = ("slotlog.error", "slotlog.topic", "slotlog.partition", "slotlog.offset", "slotlog.time")
_OWN_BYTES_MAX: Final = 1024 * 1024  # room for our headers beside the largest record
_WAIT_MS: Final = 500


class KafkaDeadLetters:
    """The dead-letter topic of `log`, with connections of its own.

    Args:
        log: whose letters these are.
    """

    def __init__(self, log: KafkaLog) -> None:
        self._log = KafkaLog(
            log.servers,
            topic=log.topic + SUFFIX,
            partitions=1,
            settings=log.settings,
            message_bytes_max=MESSAGE_BYTES_MAX + _OWN_BYTES_MAX,
        )

    async def start(self) -> None:
        """Create the topic if need be, and check its settings: letters must not age out unseen."""
        await self._log.start()

    async def store(self, letters: Sequence[DeadLetter]) -> None:
        """Acknowledged by all in-sync replicas on return."""
        await self._log.send([_to_record(letter) for letter in letters])

    async def read(self, letters_max: int = 1000) -> list[DeadLetter]:
        """In the order of their arrival; one that was stored again comes again."""
        begin, end = await self._log.begin_offset(0), await self._log.end_offset(0)
        reader = self._log.reader({0: begin})
        letters: list[DeadLetter] = []
        try:
            while reader.position(0) < end and len(letters) < letters_max:
                fetched = await reader.fetch(_WAIT_MS, letters_max - len(letters))
                letters += [_to_letter(record, reader.headers(0, record[0])) for record in fetched.get(0, ())]
        finally:
            await reader.close()
        return letters

    async def close(self) -> None:
        """Let go of the connections."""
        await self._log.close()


def _to_record(letter: DeadLetter) -> Outgoing:
    texts = (letter.reason, letter.topic, str(letter.partition), str(letter.offset), str(letter.time_ms))
    own = tuple((name, text.encode()) for name, text in zip(_OWN_HEADERS, texts, strict=True))
    # The time is in our header alone: a broker refuses records with a time that is far from its own.
    return Outgoing(0, letter.key, letter.value, None, letter.headers + own)


def _to_letter(record: LogRecord, headers: Headers) -> DeadLetter:
    _, _, key, value = record
    count = len(_OWN_HEADERS)
    reason, topic, partition, offset, time_ms = ((text or b"").decode() for _, text in headers[-count:])
    return DeadLetter(topic, int(partition), int(offset), int(time_ms), reason, key, value, headers[:-count])
