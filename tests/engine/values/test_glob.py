"""Glob patterns: what they match is what the oracle's KEYS matches, and no pattern takes for ever."""

from __future__ import annotations

from random import Random

import pytest

from engine.values.glob import key_matcher, matcher
from tests.real.oracle import Connection

_ALPHABET = (b"a", b"b", b"c", b"-", b"]", b"[", b"^", b"\\", b"*", b"?", b"\xff", b"\x01", b"\x80", b"\0")
_MANY = 1000


def _some(random: Random, alphabet: tuple[bytes, ...], length: int) -> bytes:
    return b"".join(random.choice(alphabet) for _ in range(length))


def test_patterns_match_what_the_oracle_matches(oracle: Connection) -> None:
    """Random patterns over the characters that mean something, on random names: the same names match."""
    random = Random(1)
    names = sorted({_some(random, _ALPHABET, random.randrange(6)) for _ in range(300)} | {b"", b"aaaa", b"abcabc"})
    oracle.pipeline([("SET", name, "v") for name in names])
    patterns = [_some(random, (*_ALPHABET, b"*", b"[", b"]", b"a"), random.randrange(8)) for _ in range(6000)]
    patterns.append(b"*")  # which no other pattern of stars is like

    replies = oracle.pipeline([("KEYS", pattern) for pattern in patterns])

    for pattern, reply in zip(patterns, replies, strict=True):
        matches = key_matcher(pattern)
        assert (pattern, sorted(reply)) == (pattern, [name for name in names if matches(name)])


@pytest.mark.parametrize("stars", [_MANY - 1, _MANY, _MANY + 1])
@pytest.mark.parametrize("shape", [b"*a", b"a*"])
@pytest.mark.parametrize("end", [b"", b"*", b"b"])
def test_many_stars_match_what_the_oracle_matches(stars: int, shape: bytes, end: bytes, oracle: Connection) -> None:
    """Where the oracle gives up on too many stars, so does the engine, and nowhere else."""
    pattern = shape * stars + end
    names = [b"a" * stars, b"a" * (stars + 5), b"a" * stars + b"b", b"a"]
    oracle.pipeline([("SET", name, "v") for name in names])

    assert oracle.call("KEYS", pattern) == [name for name in names if matcher(pattern)(name)]


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "pattern",
    [
        b"a*" * 900 + b"b",
        b"[a-z]*" * 900 + b"b",
        b"?*" * 900 + b"b",
        b"[a-z]?" * 100_000 + b"b",
        b"[a-z" * 50_000,
        b"*" * 100_000 + b"b",
    ],
)
def test_no_pattern_takes_for_ever(pattern: bytes) -> None:
    """Patterns that a backtracking matcher would try for ages on a string that almost matches."""
    assert False is matcher(pattern)(b"a" * 100_000)
