"""LCS: the same bytes and places as Redis takes, and no more work than its bound allows."""

from __future__ import annotations

from random import Random

import pytest

from engine.apply.machine import Machine
from engine.errors import LCS_TOO_LARGE
from engine.limits import STRING_BYTES_MAX
from engine.values import subsequence
from tests.differential.wire import RESP2, wire
from tests.engine.harness import FINGERPRINT, HOME, NOW_MS, new_store
from tests.real.oracle import Connection

PAIRS_MAX = STRING_BYTES_MAX // 4


def holding(a: bytes, b: bytes) -> Machine:
    """A machine with two strings."""
    machine = Machine(new_store(), HOME)
    machine.apply([(0, NOW_MS, b"MSET", [b"a", a, b"b", b], 0, None, None)], 0)
    machine.commit(FINGERPRINT)
    return machine


@pytest.mark.parametrize("letters", [1, 2, 4, 20])
def test_places_are_those_of_the_oracle(letters: int, oracle: Connection) -> None:
    """Of several longest common subsequences it is the one that Redis takes: its length, bytes and stretches."""
    random = Random(letters)
    for _ in range(60):
        a, b = (bytes(random.choices(range(letters), k=random.randrange(40))) for _ in range(2))
        machine = holding(a, b)
        oracle.call("MSET", "a", a, "b", b)
        for words in ("", "LEN", "IDX", "IDX WITHMATCHLEN MINMATCHLEN 2"):
            expected = oracle.call("LCS", "a", "b", *words.split())
            assert expected == wire(machine.read(b"LCS", [b"a", b"b", *words.encode().split()]), RESP2)


def test_any_shape_gives_a_common_subsequence() -> None:
    """A few bytes beside very many: as long as its length says, in order in both, as long whichever comes first."""
    random = Random(5)
    for shape in ((7, 5000), (5000, 7), (300, 400)):
        a, b = (random.randbytes(size) for size in shape)
        matches = list(subsequence.matches(a, b))
        assert len(matches) == subsequence.length(a, b) == subsequence.length(b, a)
        assert all(a[first] == b[second] for first, second in matches)
        assert matches == sorted(set(matches), reverse=True)
        assert len({second for _, second in matches}) == len(matches)


@pytest.mark.parametrize(("lengths", "fits"), [((16383, 8191), True), ((16384, 8191), False), ((0, 134217727), True)])
def test_the_bound_is_redis_own(lengths: tuple[int, int], oracle: Connection, *, fits: bool) -> None:
    """Four bytes for each pair of places may be as many as a string has; one more is refused, with Redis' words."""
    words = [[b"SETRANGE", b"ab"[at : at + 1], b"%d" % (size - 1), b"x"] for at, size in enumerate(lengths) if size]
    assert fits == ((lengths[0] + 1) * (lengths[1] + 1) <= PAIRS_MAX)
    machine = Machine(new_store(), HOME)
    machine.apply([(n, NOW_MS, name, args, 0, None, None) for n, (name, *args) in enumerate(words)], 0)
    machine.commit(FINGERPRINT)

    outcome = machine.apply([(9, NOW_MS, b"LCS", [b"a", b"b", b"LEN"], 0, None, None)], len(words), [9]).outcomes[9]

    assert (min(lengths) if fits else LCS_TOO_LARGE) == (outcome if fits else outcome.message)
    if lengths[0]:
        oracle.pipeline(words)
        assert wire(outcome, RESP2) == oracle.call("LCS", "a", "b", "LEN")
