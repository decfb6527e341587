"""Dead letters in the Kafka topic `<topic>.dlq`, of one partition. See `ingest.dead_letters.stores`.

A foreign producer can have a batch compressed, and then a record that is larger than any batch that we can send. What
does not fit is cut: no letter may hold its partition up for ever. A cut letter says so in one more header:

    slotlog.truncated    key 2 bytes; value 30000000 bytes, SHA-256 …; headers 0 bytes
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Final

from structlog import get_logger

from ingest.dead_letters.dead_letter import TRUNCATED, DeadLetter
from slotlog.errors import LogUnavailableError, RecordTooLargeError
from slotlog.log.kafka.appender import Outgoing
from slotlog.log.kafka.kafka_log import KafkaLog
from slotlog.log.kafka.topic import MESSAGE_BYTES_MAX
from slotlog.log.log import Headers, LogRecord

logger = get_logger(__name__)

SUFFIX: Final = ".dlq"
_OWN_HEADERS: Final = ("slotlog.error", "slotlog.topic", "slotlog.partition", "slotlog.offset", "slotlog.time")
_OWN_BYTES_MAX: Final = 1024 * 1024  # room for our headers beside the largest record
_WAIT_MS: Final = 500
_FETCH_RECORDS_MAX: Final = 1000
_LETTER_BYTES_MAX: Final = MESSAGE_BYTES_MAX + _OWN_BYTES_MAX // 2  # the other half is for our headers and framing
_REASON_BYTES_MAX: Final = 64 * 1024
_ALONE_BYTES: Final = 64 * 1024  # what is larger has a batch of its own, so that a refusal concerns it alone
_CUT_BYTES_MAX: Final = 32 * 1024  # of a letter that was refused as too large: somebody has lowered the topic's limit


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

    @property
    def concerns(self) -> tuple[str, ...]:
        """As `watch` found them last."""
        return tuple(f"{self._log.topic}: {concern}" for concern in self._log.concerns)

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
        letters: list[DeadLetter] = []
        begin, _ = await self.bounds()
        async with aclosing(self.since(begin)) as found:
            async for _, letter in found:
                letters.append(letter)
                if len(letters) == letters_max:
                    break
        return letters

    async def bounds(self) -> tuple[int, int]:
        """Where the topic begins and ends: offsets in it, not of letters."""
        return await self._log.begin_offset(0), await self._log.end_offset(0)

    async def offset_at(self, time_ms: int) -> int | None:
        """Where in the topic the first stands that was stored at that time or later; None if none was."""
        return await self._log.offset_at(0, max(0, time_ms))

    async def since(self, offset: int, before: int | None = None) -> AsyncGenerator[tuple[int, DeadLetter]]:
        """What stands in the topic from `offset` to its end of now (or `before`), each with its offset there."""
        end = await self._log.end_offset(0) if before is None else before
        reader = self._log.reader({0: offset})
        try:
            while reader.position(0) < end:
                fetched = await reader.fetch(_WAIT_MS, _FETCH_RECORDS_MAX)
                for record in fetched.get(0, ()):
                    if record[0] >= end:
                        break
                    letter = _to_letter(record, reader.headers(0, record[0]))
                    if letter is None:
                        logger.warning("no_dead_letter", topic=self._log.topic, offset=record[0])
                    else:
                        yield record[0], letter
        finally:
            await reader.close()

    async def offsets(self, partition: int) -> None:
        """Not known: they have a topic of their own."""

    async def watch(self, seconds: float) -> None:
        """Look at the topic's settings. Whatever they are, letters that can be stored are: they concern no state."""
        while True:
            try:
                await self._log.look()
            except LogUnavailableError:
                pass  # whoever reads the log finds out as well, and says so
            except Exception:
                logger.exception("dead_letters_watch_failed")
            await asyncio.sleep(seconds)

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
        headers=(*(letter.headers if headers_size <= bytes_max // 4 else ()), (TRUNCATED, note.encode())),
    )


def _to_record(letter: DeadLetter) -> Outgoing:
    texts = (letter.reason, letter.topic, str(letter.partition), str(letter.offset), str(letter.time_ms))
    own = tuple((name, text.encode()[:_REASON_BYTES_MAX]) for name, text in zip(_OWN_HEADERS, texts, strict=True))
    # The time is in our header alone: a broker refuses records with a time that is far from its own.
    return Outgoing(0, letter.key, letter.value, None, letter.headers + own)


def _to_letter(record: LogRecord, headers: Headers) -> DeadLetter | None:
    """None for what somebody else has written into the topic: nothing says which event that would be."""
    _, _, key, value = record
    count = len(_OWN_HEADERS)
    if tuple(name for name, _ in headers[-count:]) != _OWN_HEADERS:
        return None
    texts = [(text or b"").decode("utf-8", "replace") for _, text in headers[-count:]]
    reason, topic, partition, offset, time_ms = texts
    try:
        return DeadLetter(topic, int(partition), int(offset), int(time_ms), reason, key, value, headers[:-count])
    except ValueError:
        return None
