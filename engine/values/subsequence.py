"""The longest common subsequence of two byte strings, with Redis' choice among equals.

Row by row over the shorter string, as bits along the longer one: bit `i` of a row is 0 where the longest common
subsequence with the first `i + 1` bytes is longer than with `i`. So a row costs a few operations on one integer, and
all rows take an eighth of a byte for each pair of bytes. Source: Hyyrö, "Bit-parallel LCS-length computation
revisited" (2004).
"""

from __future__ import annotations

from collections.abc import Iterator

Match = tuple[int, int]
"""The places of one common byte in the first string and in the second."""


def length(a: bytes, b: bytes) -> int:
    """How long the longest common subsequence is."""
    short, long = sorted((a, b), key=len)
    last = 0
    for last in _rows(short, long):  # noqa: B007 - the last one counts
        pass
    return _zeros(last, len(long)) if short else 0


def matches(a: bytes, b: bytes) -> Iterator[Match]:
    """The bytes of the longest common subsequence, the last one first.

    Redis goes back from the ends of both: a common byte is taken, else one byte of `a` is left out where that keeps
    the rest longer, else one of `b`. The walks here make the same steps, many at a time.
    """
    return _back_along_first(a, b) if len(a) >= len(b) else _back_along_second(a, b)


def _back_along_first(a: bytes, b: bytes) -> Iterator[Match]:
    """Rows over `b`. Where its byte makes the rest longer, bytes of `a` are left out up to it; else it is left out."""
    rows = [_ones(len(a)), *_rows(b, a)]
    i, left = len(a), _zeros(rows[-1], len(a))
    for j in range(len(b), 0, -1):
        if not left:
            return
        byte = b[j - 1]
        if a[i - 1] != byte and left == _zeros(rows[j - 1], i):
            continue
        i = a.rindex(byte, 0, i)
        left -= 1
        yield i, j - 1


def _back_along_second(a: bytes, b: bytes) -> Iterator[Match]:
    """Rows over `a`. Bytes of `b` are left out up to `a`'s, or up to one without which the rest is shorter."""
    rows = list(_rows(a, b))
    j = len(b)
    for i in range(len(a), 0, -1):
        matched = b.rfind(a[i - 1], 0, j) + 1
        needed = (~rows[i - 1] & _ones(j)).bit_length()
        if matched >= needed > 0:
            j = matched - 1
            yield i - 1, j
        else:
            j = needed
        if not j:
            return


def _rows(short: bytes, long: bytes) -> Iterator[int]:
    """One row for each byte of `short`."""
    everywhere = _ones(len(long))
    places: dict[int, int] = {}
    row = everywhere
    for byte in short:
        mask = places.get(byte)
        if mask is None:
            mask = places[byte] = _places(byte, long)
        common = row & mask
        row = (row + common | row - common) & everywhere
        yield row


def _places(byte: int, text: bytes) -> int:
    """The bits at which `text` has that byte."""
    digits = bytearray(b"0") * 256
    digits[byte] = ord("1")
    return int(text[::-1].translate(digits), 2)


def _ones(count: int) -> int:
    return (1 << count) - 1


def _zeros(row: int, count: int) -> int:
    """How many of the lowest `count` bits are 0."""
    return count - (row & _ones(count)).bit_count()
