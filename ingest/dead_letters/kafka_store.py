"""Dead letters in the Kafka topic `<topic>.dlq`, of one partition. See `ingest.dead_letters.stores`.

A foreign producer can have a batch compressed, and then a record that is larger than any batch that we can send. What
does not fit is cut: no dead letter may hold its partition up for ever. A cut dead letter says so in one more header:

    slotlog.truncated    key 2 bytes; value 30000000 bytes, SHA-256 …; headers 0 bytes
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Final

from structlog import get_logger

from ingest.dead_letters.dead_letter import TRUNCATED, DeadLetter
from slotlog.errors import LogUnavailableError, RecordTooLargeError
from slotlog.log.kafka.kafka_log import KafkaLog
from slotlog.log.kafka.outgoing import Outgoing
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
        log: whose dead letters these are.
    """

    def __init__(self, log: KafkaLog) -> None:
        self._log = KafkaLog(
            log.servers,
            topic=log.topic + SUFFIX,
            partitions=1,
            settings=replace(log.settings, finite_retention=False),  # no snapshot has them
            message_bytes_max=MESSAGE_BYTES_MAX + _OWN_BYTES_MAX,
        )

    @property
    def concerns(self) -> tuple[str, ...]:
        """As `watch` found them last."""
        return tuple(f"{self._log.topic}: {concern}" for concern in self._log.concerns)

    async def start(self) -> None:
        """Create the topic if need be, and check its settings: dead letters must not age out unseen."""
        await self._log.start()

    async def store(self, dead_letters: Sequence[DeadLetter]) -> None:
        """Acknowledged by all in-sync replicas on return."""
        small = [dead_letter for dead_letter in dead_letters if _size(dead_letter) <= _ALONE_BYTES]
        await self._log.send([_to_record(dead_letter) for dead_letter in small])
        for dead_letter in dead_letters:
            if _size(dead_letter) > _ALONE_BYTES:
                await self._store_large(_cut(dead_letter, _LETTER_BYTES_MAX))

    async def _store_large(self, dead_letter: DeadLetter) -> None:
        try:
            await self._log.send([_to_record(dead_letter)])
        except RecordTooLargeError:
            await self._log.send([_to_record(_cut(dead_letter, _CUT_BYTES_MAX))])

    async def read(self, dead_letters_max: int = 1000) -> list[DeadLetter]:
        """In the order of their arrival; one that was stored again comes again."""
        dead_letters: list[DeadLetter] = []
        begin, _ = await self.bounds()
        async with aclosing(self.since(begin)) as found:
            async for _, dead_letter in found:
                dead_letters.append(dead_letter)
                if len(dead_letters) == dead_letters_max:
                    break
        return dead_letters

    async def bounds(self) -> tuple[int, int]:
        """Where the topic begins and ends: offsets in it, not of dead letters."""
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
                    dead_letter = _to_letter(record, reader.headers(0, record[0]))
                    if dead_letter is None:
                        logger.warning("no_dead_letter", topic=self._log.topic, offset=record[0])
                    else:
                        yield record[0], dead_letter
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


def _size(dead_letter: DeadLetter) -> int:
    return len(dead_letter.key or b"") + len(dead_letter.value or b"") + _headers_size(dead_letter.headers)


def _headers_size(headers: Headers) -> int:
    return sum(len(name.encode()) + len(value or b"") for name, value in headers)


def _cut(dead_letter: DeadLetter, bytes_max: int) -> DeadLetter:
    """The letter, if need be with the first part of key and value alone, and without headers that take much room."""
    if _size(dead_letter) <= bytes_max:
        return dead_letter
    key, value = dead_letter.key or b"", dead_letter.value or b""
    headers_size = _headers_size(dead_letter.headers)
    digest = hashlib.sha256(value).hexdigest()
    note = f"key {len(key)} bytes; value {len(value)} bytes, SHA-256 {digest}; headers {headers_size} bytes"
    return dead_letter._replace(
        key=dead_letter.key and dead_letter.key[: bytes_max // 4],
        value=dead_letter.value and dead_letter.value[: bytes_max // 2],
        headers=(*(dead_letter.headers if headers_size <= bytes_max // 4 else ()), (TRUNCATED, note.encode())),
    )


def _to_record(dead_letter: DeadLetter) -> Outgoing:
    texts = (
        dead_letter.reason,
        dead_letter.topic,
        str(dead_letter.partition),
        str(dead_letter.offset),
        str(dead_letter.time_ms),
    )
    own = tuple((name, text.encode()[:_REASON_BYTES_MAX]) for name, text in zip(_OWN_HEADERS, texts, strict=True))
    # The time is in our header alone: a broker refuses records with a time that is far from its own.
    return Outgoing(0, dead_letter.key, dead_letter.value, None, dead_letter.headers + own)


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
