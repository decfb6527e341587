"""Very many elements are sorted in pieces, and nobody can tell."""

from __future__ import annotations

from operator import itemgetter
from random import Random

import pytest

from engine.values import ordering
from engine.values.ordering import in_order


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("keys", [1, 3, 100, 10**9])
@pytest.mark.parametrize("count", [0, 1, 20, 21, 500, 1000])
def test_it_is_what_sorted_gives(count: int, keys: int, *, reverse: bool) -> None:
    """The same order, also of elements that compare as equal, from either end."""
    chance = Random(f"{count} {keys}")
    elements = [(chance.randrange(keys), at) for at in range(count)]
    by_first = itemgetter(0)

    assert sorted(elements, key=by_first, reverse=reverse) == in_order(elements, by_first, reverse=reverse, piece=10)


@pytest.mark.parametrize("elements", [range(1000), range(1000, 0, -1), [7919 * at % 1000 for at in range(1000)]])
def test_no_piece_is_large(elements: range | list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """No single step of it sorts many more elements than a piece should have, whatever order they come in."""
    sizes: list[int] = []

    def counting(some: list[int], **options: object) -> list[int]:
        sizes.append(len(some))
        return sorted(some, **options)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(ordering, "sorted", counting, raising=False)

    assert sorted(elements) == in_order(elements, int, piece=100)
    assert max(sizes) < 300
    assert len(sizes) > 5
