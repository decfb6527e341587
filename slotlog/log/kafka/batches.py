"""Takes the records out of the record batches of one fetch, as `read_committed` wants them.

Each batch is held against its CRC, and those of aborted transactions and the markers at the end of transactions are
left out. Where it is installed `_batches`, in C, takes all plain batches of a fetch in one pass: those without a codec
and outside of transactions. It is given the others unpacked. The rest is aiokafka's parser, which is its twin.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from aiokafka.consumer.fetcher import PartitionRecords
from aiokafka.errors import CorruptRecordException
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.record.util import calc_crc32c

from slotlog.log.kafka.decoding import TooLargeError, unpacked
from slotlog.log.log import Headers, LogRecord
from slotlog.shared.compiled import is_allowed

try:
    from slotlog.log.kafka import _batches
except ImportError:  # it was installed without a C compiler
    _batches = None  # type: ignore[assignment]

INTERFACE: Final = 1
"""What Python and C agree on: to be raised here and in batches.c whenever a call between the two changes."""

_FITS: Final = getattr(_batches, "INTERFACE", None) == INTERFACE
_LENGTH_AT: Final = slice(8, 12)  # of a batch; it counts what is behind it
_MAGIC_AT: Final = 16
_ATTRIBUTES_AT: Final = slice(21, 23)
_CODEC_BITS: Final = 7
_COUNT_AT: Final = slice(57, 61)
_RECORDS_AT: Final = 61  # of a batch of magic 2
_MAGIC_2: Final = 2


class Piece(NamedTuple):
    """Some records of a partition.

    Attributes:
        records: in offset order.
        headers: of those that have some, by offset.
        next_offset: where the log goes on behind them.
    """

    records: list[LogRecord]
    headers: list[tuple[int, Headers]]
    next_offset: int


def piece_of(records: Iterable[Any], next_offset: int, from_offset: int = 0) -> Piece:
    """These records of aiokafka's, those before `from_offset` left out. In one loop: an attribute is a call in C."""
    taken: list[LogRecord] = []
    of_some: list[tuple[int, Headers]] = []
    for record in records:
        offset = record.offset
        if offset >= from_offset:
            taken.append((offset, record.timestamp, record.key, record.value))
            if headers := record.headers:
                of_some.append((offset, tuple(headers)))
    return Piece(taken, of_some, next_offset)


def is_compiled() -> bool:
    """Whether plain batches are read in C."""
    return _FITS and is_allowed()


class Batches:
    """The batches of one fetch of a partition.

    Args:
        fetch: as aiokafka's consumer keeps it.
        fetched: its bytes; None: they are not at hand, and aiokafka's parser unpacks the batches without a bound.
    """

    def __init__(self, fetch: PartitionRecords, fetched: bytes | None) -> None:
        self._fetch: Any = fetch
        self._fetched = fetched
        self._at = 0
        self._is_compiled = is_compiled()

    def next_piece(self, most: int) -> Piece | None:
        """The records of the next batch, or of some with `most` records or a few more; None at the end.

        Raises:
            CorruptRecordException: the CRC of a batch is another one.
            TooLargeError: a compressed batch unpacks to more than it may.
            Exception: as aiokafka's parser.
        """
        while (fetched := self._fetched) is not None:
            at = self._at
            if self._is_compiled:
                records, headers, at, offset = _batches.take(
                    fetched, self._at, self._fetch.next_fetch_offset, most, calc_crc32c
                )
                if at > self._at:
                    self._at = at
                    return Piece(records, headers, offset)
            size = _LENGTH_AT.stop + int.from_bytes(fetched[at : at + _LENGTH_AT.stop][_LENGTH_AT])
            rest = MemoryRecords(fetched[at : at + size])
            if not rest.has_next():  # the broker has cut it off
                return None
            self._at = at + size
            batch = rest.next_batch()
            if self._is_given(batch):
                return self._unpacked(fetched[at : at + size], batch) or self._piece(batch)
        while self._fetch._records.has_next():
            batch = self._fetch._records.next_batch()
            if self._is_given(batch):
                return self._piece(batch)
        return None

    def _piece(self, batch: Any) -> Piece:
        """By aiokafka's parser. A broker gives whole batches, so that the first may begin before what is asked for."""
        return piece_of(batch, batch.next_offset, self._fetch.next_fetch_offset)

    def _unpacked(self, whole: bytes, batch: Any) -> Piece | None:
        """By the part in C; None where it cannot, and aiokafka's parser is to say what is wrong."""
        if whole[_MAGIC_AT] != _MAGIC_2:
            return None
        if batch.compression_type:
            first, last, count = batch.base_offset, batch.next_offset - 1, int.from_bytes(whole[_COUNT_AT])
            try:
                records = unpacked(batch.compression_type, whole[_RECORDS_AT:], first=first, last=last, records=count)
            except TooLargeError:
                raise
            except Exception:  # noqa: BLE001 - whatever a decoder raises: aiokafka's parser raises its own
                return None
            whole = whole[:_RECORDS_AT] + records
        if not self._is_compiled:
            return self._piece(_plain(whole))
        taken, headers, at, offset = _batches.take(whole, 0, self._fetch.next_fetch_offset, 1, None)
        return Piece(taken, headers, offset) if at else None

    def _is_given(self, batch: Any) -> bool:
        """Whether its records are to be given; if not, the position goes on behind it."""
        fetch = self._fetch
        if not batch.validate_crc():
            raise CorruptRecordException(f"Invalid CRC - {fetch._tp}")
        producer, is_marker = batch.producer_id, batch.is_control_batch
        if producer is not None:  # None: written before Kafka had transactions
            fetch._consume_aborted_up_to(batch.base_offset)
            if is_marker and fetch._contains_abort_marker(batch):
                fetch._aborted_producers.discard(producer)
        if not is_marker and not (batch.is_transactional and producer in fetch._aborted_producers):
            return True
        fetch.next_fetch_offset = batch.next_offset
        return False


def _plain(whole: bytes) -> Any:
    """A batch of magic 2 whose records were unpacked behind its header, for aiokafka's parser."""
    header = bytearray(whole[:_RECORDS_AT])
    header[_LENGTH_AT] = (len(whole) - _LENGTH_AT.stop).to_bytes(4)
    header[_ATTRIBUTES_AT] = (int.from_bytes(header[_ATTRIBUTES_AT]) & ~_CODEC_BITS).to_bytes(2)
    return MemoryRecords(bytes(header) + whole[_RECORDS_AT:]).next_batch()
