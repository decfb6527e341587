"""A batch without what listeners were told of already keeps all else."""

from __future__ import annotations

from engine.apply.records import Applied, Modified
from engine.model import NONE


def _set(offset: int, key: bytes) -> Modified:
    return offset, 0, b"SET", [key, b"v"], 0, key, NONE, NONE, 0


def test_a_batch_since_an_offset() -> None:
    """What older records modified, published and let expire is left out, and places count what is left."""
    applied = Applied(8)
    applied.modified = [_set(5, b"a"), _set(5, b"b"), _set(7, b"c")]
    applied.expired = [(1, 0, b"b"), (2, 0, b"c")]
    applied.expired_fields = [(0, 0, b"a", True), (2, 0, b"c", False)]
    applied.further = {0: (b"new",), 2: (b"trim",)}
    applied.published = [(5, b"news", b"old", False), (6, b"news", b"new", True)]
    later = applied.since(6)

    assert applied is applied.since(5)
    assert [_set(7, b"c")] == later.modified
    assert ([(0, 0, b"c")], [(0, 0, b"c", False)]) == (later.expired, later.expired_fields)
    assert ({0: (b"trim",)}, [(6, b"news", b"new", True)]) == (later.further, later.published)
    assert 3 == len(applied.modified)
    assert ([], []) == (applied.since(8).modified, applied.since(8).published)
