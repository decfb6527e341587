"""Compressed batches are unpacked up to a bound, and a larger one is named."""

from __future__ import annotations

import gzip
import zlib
from types import SimpleNamespace
from typing import Any, Final

import pytest
from aiokafka import codec
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from slotlog.errors import LogRecordError
from slotlog.log.kafka import decoding
from slotlog.log.kafka.decoding import TooLargeError, unpacked
from slotlog.log.kafka.requests import fetch_once
from slotlog.log.kafka.unpacking import Unpacker
from tests.engine.native.twins import running
from tests.slotlog.log.kafka.test_unpacking import TP, Batch, Consumer, Log, packed, with_crc

_MOST: Final = 1 << 20
_CODECS: Final = {"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
_CODERS: Final = {
    "gzip": gzip.compress,
    "snappy": lambda data: codec.snappy_encode(data, xerial_compatible=True),
    "raw snappy": lambda data: codec.snappy_encode(data, xerial_compatible=False),
    "lz4": codec.lz4_encode,
    "zstd": codec.zstd_encode,
}


@pytest.fixture(autouse=True)
def _bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Smaller ones, so that each test is quick."""
    monkeypatch.setattr(decoding, "UNPACKED_BYTES_MAX", _MOST)
    monkeypatch.setattr(decoding, "UNPACKED_RECORDS_MAX", 100)


def compressed(name: str, size: int, base: int, records: int = 2) -> bytes:
    """A batch with so many records, the first of which has a value of `size` bytes that are all the same."""
    builder = DefaultRecordBatchBuilder(2, _CODECS[name], 0, -1, 0, 0, 1 << 30)
    for number in range(records):
        builder.append(number, 7, None, bytes(size) if number == 0 else b"v", [])
    data = bytearray(builder.build())
    data[:8] = base.to_bytes(8)
    return with_crc(data)


def number_of(coder: str) -> int:
    """The codec's, as a batch names it."""
    return _CODECS[coder.removeprefix("raw ")]


@pytest.mark.parametrize("coder", _CODERS)
@pytest.mark.parametrize("size", [251, 1000, _MOST - 1, _MOST])
def test_up_to_the_bound_all_is_given(coder: str, size: int) -> None:
    """As aiokafka's decoders do, whatever the ratio."""
    for data in (bytes(size), bytes(range(251)) * (size // 251)):
        assert data == unpacked(number_of(coder), _CODERS[coder](data), first=0, last=1, records=2)


@pytest.mark.parametrize("coder", _CODERS)
def test_a_byte_more_is_refused(coder: str) -> None:
    """Also where far more would come; the text says which offsets, and what an operator can do."""
    for size in (_MOST + 1, 40 * _MOST):
        with pytest.raises(
            TooLargeError, match=r"the offsets 5 to 9 .* more than 1048576 bytes .* PARTITION 5-9` goes"
        ):
            unpacked(number_of(coder), _CODERS[coder](bytes(size)), first=5, last=9, records=5)


def test_many_records_are_refused() -> None:
    """By what the header says, before anything is unpacked."""
    with pytest.raises(TooLargeError):
        unpacked(1, b"no gzip", first=0, last=100, records=101)


@pytest.mark.parametrize(
    ("coder", "error"),
    [("gzip", zlib.error), ("lz4", codec.cramjam.DecompressionError), ("zstd", codec.cramjam.DecompressionError)],
)
def test_damage_is_no_size(coder: str, error: type[Exception]) -> None:
    """What cannot be unpacked raises what its decoder raises."""
    data = _CODERS[coder](bytes(range(250)))[:-9]
    with pytest.raises((error, OSError, EOFError)):
        unpacked(number_of(coder), data, first=0, last=1, records=2)


@pytest.mark.parametrize("natively", [True, False])
@pytest.mark.parametrize("name", _CODECS)
async def test_the_consumer_stops_before_such_a_batch(name: str, natively: bool) -> None:
    """With C and without it: what is large is given, what is too large raises, and nothing behind it is given."""
    with running(natively=natively):
        good = compressed(name, _MOST - 1000, 0)
        for data, records in ((good, 2), (good + compressed(name, 2 * _MOST, 2), 0)):
            consumer = Consumer()
            unpacker = Unpacker(consumer)
            consumer.fetched(Log(data + packed(Batch(1), 4), [], []))
            if records:
                taken = (await unpacker.get(0, 100))[0]
                assert [_MOST - 1000, 1] == [len(value or b"") for _, _, _, value in taken[:2]]
            else:
                with pytest.raises(TooLargeError, match="the offsets 2 to 3 "):
                    await unpacker.get(0, 100)


@pytest.mark.parametrize("name", _CODECS)
async def test_the_other_way_to_read_names_its_place(name: str) -> None:
    """What stands before it is given; it is the first that cannot be read, as a damaged record is; what follows can."""
    data = compressed(name, 1000, 0) + compressed(name, 2 * _MOST, 2)
    given: list[bytes] = [data, data[len(compressed(name, 1000, 0)) :], packed(Batch(1), 4)]

    async def send(*_: object, **__: object) -> Any:
        return SimpleNamespace(API_VERSION=11, topics=[("topic", [(0, 0, 5, 5, 0, [], -1, given.pop(0))])])

    client = SimpleNamespace(send=send, cluster=SimpleNamespace(leader_for_partition=lambda _: 0))
    consumer: Any = SimpleNamespace(_client=client)
    before = await fetch_once(consumer, TP, 0)
    with pytest.raises(
        LogRecordError, match=r"at offset 2 cannot be read: the offsets 2 to 3 .* PARTITION 2-3`"
    ) as raised:
        await fetch_once(consumer, TP, 2)
    behind = await fetch_once(consumer, TP, 4)

    assert ([0, 1], 2, [4]) == (
        [each.offset for each in before.records],
        before.next_offset,
        [each.offset for each in behind.records],
    )
    assert (0, 2) == (raised.value.partition, raised.value.offset)
