"""Dead letters in the Kafka topic `<topic>.dlq`, of one partition. See `ingest.dead_letters`.

A foreign producer can have a batch compressed, and then a record that is larger than any batch that we can send. What
does not fit is cut: no letter may hold its partition up for ever. A cut letter says so in one more header:

    slotlog.truncated    key 2 bytes; value 30000000 bytes, SHA-256 …; headers 0 bytes
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

from ingest.dead_letters import DeadLetter
from ingest.errors import RecordTooLargeError
from ingest.log.base import Headers, LogRecord
from ingest.log.kafka import KafkaLog
from ingest.log.kafka_appender import Outgoing
from ingest.log.kafka_topic import MESSAGE_BYTES_MAX

SUFFIX: Final = ".dlq"
_OWN_HEADERS: Final = ("slotlog.error", "slotlog.topic", "slotlog.partition", "slotlog.offset", "slotlog.time")
_OWN_BYTES_MAX: Final = 1024 * 1024  # room for our headers beside the largest record
_WAIT_MS: Final = 500
_LETTER_BYTES_MAX: Final = MESSAGE_BYTES_MAX + _OWN_BYTES_MAX // 2  # the other half is for our headers and framing
_REASON_BYTES_MAX: Final = 64 * 1024
_ALONE_BYTES: Final = 64 * 1024  # what is larger has a batch of its own, so that a refusal concerns it alone
_CUT_BYTES_MAX: Final = 32 * 1024  # of a letter that was refused as too large: somebody has lowered the topic's limit
_TRUNCATED: Final = "slotlog.truncated"


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
        small = [letter for letter in letters if _size(letter) <= _ALONE_BYTES]
        await self._log.send([_to_record(letter) for letter in small])
        for letter in letters:
            if _size(letter) > _ALONE_BYTES:
                await self._store_large(_cut(letter, _LETTER_BYTES_MAX))

    async def _store_large(self, letter: DeadLetter) -> None:
        try:
            await self._log.send([_to_record(letter)])
        except RecordTooLargeError:
            await self._log.send([_to_record(_cut(letter, _CUT_BYTES_MAX))])

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


def _size(letter: DeadLetter) -> int:
    return len(letter.key or b"") + len(letter.value or b"") + _headers_size(letter.headers)


def _headers_size(headers: Headers) -> int:
    return sum(len(name.encode()) + len(value or b"") for name, value in headers)


def _cut(letter: DeadLetter, bytes_max: int) -> DeadLetter:
    """The letter, if need be with the first part of key and value alone, and without headers that take much room."""
    if _size(letter) <= bytes_max:
        return letter
    key, value = letter.key or b"", letter.value or b""
    headers_size = _headers_size(letter.headers)
    digest = hashlib.sha256(value).hexdigest()
    note = f"key {len(key)} bytes; value {len(value)} bytes, SHA-256 {digest}; headers {headers_size} bytes"
    return letter._replace(
        key=letter.key and letter.key[: bytes_max // 4],
        value=letter.value and letter.value[: bytes_max // 2],
        headers=(*(letter.headers if headers_size <= bytes_max // 4 else ()), (_TRUNCATED, note.encode())),
    )


def _to_record(letter: DeadLetter) -> Outgoing:
    texts = (letter.reason, letter.topic, str(letter.partition), str(letter.offset), str(letter.time_ms))
    own = tuple((name, text.encode()[:_REASON_BYTES_MAX]) for name, text in zip(_OWN_HEADERS, texts, strict=True))
    # The time is in our header alone: a broker refuses records with a time that is far from its own.
    return Outgoing(0, letter.key, letter.value, None, letter.headers + own)


def _to_letter(record: LogRecord, headers: Headers) -> DeadLetter:
    _, _, key, value = record
    count = len(_OWN_HEADERS)
    texts = [(text or b"").decode("utf-8", "replace") for _, text in headers[-count:]]
    reason, topic, partition, offset, time_ms = texts
    return DeadLetter(topic, int(partition), int(offset), int(time_ms), reason, key, value, headers[:-count])
