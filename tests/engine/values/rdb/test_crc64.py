"""The checksum of payloads."""

from __future__ import annotations

from random import Random

import pytest

from engine.values.rdb.crc64 import POLYNOMIAL, TERMS, crc64, crc64_bytewise


def test_the_check_value_is_redis() -> None:
    """Of the nine digits it is what crc64.c of Redis states."""
    assert 0xE9C6D914C4B8D9CA == crc64(b"123456789")


@pytest.mark.parametrize(
    "length", [0, 1, 7, 8, 9, 63, 64, 65, 71, 72, 4095, 4096, 4097, 10_001, (1 << 18) - 1, 1 << 18, (1 << 18) + 5000]
)
def test_tables_and_folding_change_nothing(length: int) -> None:
    """Data has the checksum that it has byte by byte, whatever its length has to do with places and chunks."""
    data = Random(length).randbytes(length)

    assert crc64_bytewise(data, 0) == crc64(data)


@pytest.mark.parametrize("cut", [0, 1, 5000, 300_000, 599_930, 599_992, 599_997])
def test_a_checksum_goes_on_from_another(cut: int) -> None:
    """The checksum of a beginning, continued with the rest, is that of the whole."""
    data = Random(cut).randbytes(600_000)

    assert crc64(data) == crc64(data[cut:], crc64(data[:cut]))


def test_the_sparse_multiple_is_one() -> None:
    """Divided by the polynomial, the sum of the powers of x that folding works with leaves nothing."""
    whole = 1 << 64 | int(f"{POLYNOMIAL:064b}"[::-1], 2)
    remainder = sum(1 << exponent for exponent in TERMS)
    for exponent in range(TERMS[0], 63, -1):
        if remainder >> exponent & 1:
            remainder ^= whole << exponent - 64

    assert 0 == remainder
