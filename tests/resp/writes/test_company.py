"""A group of writes waits for who had a part in the last two, as long as that pays."""

from __future__ import annotations

from itertools import pairwise
from weakref import ref

import pytest

from resp.writes import company
from resp.writes.company import PATIENCE_SECONDS, WAIT_SECONDS_MAX, Company
from resp.writes.items import Item


class _Clock:
    """Stands still, but for what a test does to it."""

    def __init__(self) -> None:
        self.seconds = 1.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    """What `Company` looks at."""
    made = _Clock()
    monkeypatch.setattr(company, "perf_counter", made)
    return made


class _Sent(Item):
    """A write of the client of this name."""

    __slots__ = ("session",)

    def __init__(self, session: object) -> None:
        super().__init__(b"SET", [], 0)
        self.session = session


class _Client:
    """Is referred to by nobody else."""


def _of(*clients: str) -> list[Item]:
    return [_Sent(client) for client in clients]


def _waits_in_vain(company: Company, clock: _Clock, *clients: str) -> bool:
    """These come, and nobody else, until the group leaves; whether it had waited for more than one turn."""
    items = _of(*clients)
    turns = 0
    while company.is_awaited(len(items)):
        turns += 1
        clock.seconds += PATIENCE_SECONDS / 2
    company.sent(items)
    return turns > 1


def test_a_client_that_is_alone_waits_for_nobody(clock: _Clock) -> None:
    """Its write leaves at once, from the first one on."""
    company = Company()
    for _ in range(3):
        assert not company.is_awaited(1)
        company.sent(_of("a"))


def test_who_is_missing_is_awaited_for_some_time(clock: _Clock) -> None:
    """A turn brings one, the next none; when nobody has come for `PATIENCE_SECONDS`, the group leaves."""
    company = Company()
    company.sent(_of("a", "b", "c"))
    assert company.is_awaited(1)
    clock.seconds += PATIENCE_SECONDS * 0.9
    assert company.is_awaited(2)
    clock.seconds += PATIENCE_SECONDS * 0.9
    assert company.is_awaited(2)
    clock.seconds += PATIENCE_SECONDS * 0.2
    assert not company.is_awaited(2)


def test_a_wait_ends_though_one_comes_after_the_other(clock: _Clock) -> None:
    """Else it would last as long as each of 200 is there within `PATIENCE_SECONDS`."""
    company = Company()
    company.sent(_of(*(f"client {number}" for number in range(200))))
    began = clock.seconds
    count = 0
    while True:
        count += 1
        assert company.is_awaited(count)
        clock.seconds += PATIENCE_SECONDS * 0.8
        if not company.is_awaited(count):
            break
    assert WAIT_SECONDS_MAX <= clock.seconds - began < WAIT_SECONDS_MAX + PATIENCE_SECONDS


def test_a_client_that_has_gone_is_not_kept(clock: _Clock) -> None:
    """Its session, with all that it holds, is of no use."""
    company = Company()
    items = [_Sent(_Client())]
    session = ref(items[0].session)
    company.sent(items)
    items.clear()
    assert session() is None


def test_nobody_waits_once_all_are_there(clock: _Clock) -> None:
    """However little time has passed."""
    company = Company()
    company.sent(_of("a", "b", "c"))
    assert company.is_awaited(2)
    assert not company.is_awaited(3)


def test_two_halves_become_one_group(clock: _Clock) -> None:
    """Who was in the group before the last is expected as well, so clients do not take turns with each other."""
    company = Company()
    company.sent(_of("a", "b"))
    company.sent(_of("c", "d"))
    assert company.is_awaited(2)
    assert company.is_awaited(3)
    assert not company.is_awaited(4)


def test_a_pipeline_is_expected_as_a_whole(clock: _Clock) -> None:
    """Of a client in the group before the last as many items are expected as the others have in the mean."""
    company = Company()
    company.sent(_of("a", "a", "a"))
    company.sent(_of("b", "b", "b"))
    assert company.is_awaited(5)
    assert not company.is_awaited(6)


def test_a_large_group_does_not_wait(clock: _Clock) -> None:
    """It has another turn as long as each brings more, up to the size of the last one."""
    company = Company()
    company.sent(_of(*["a"] * 300))
    assert company.is_awaited(100)
    assert company.is_awaited(200)
    assert not company.is_awaited(200)
    company.sent(_of(*["a"] * 200, *["b"] * 100))
    assert not company.is_awaited(300)


def test_who_has_gone_is_expected_twice_at_most(clock: _Clock) -> None:
    """In the next two groups; the third leaves without a turn more."""
    company = Company()
    company.sent(_of("a", "b"))
    company.sent(_of("a"))
    company.sent(_of("a"))
    assert not company.is_awaited(1)


def test_waits_in_vain_become_rare(clock: _Clock) -> None:
    """Clients with something else to do between their writes: 2 groups do not wait, then 4, and in the end 64."""
    company = Company()
    names = [f"client {number}" for number in range(2_000)]
    waited = [
        number
        for number, (one, other) in enumerate(pairwise(names))
        if _waits_in_vain(company, clock, *((one, other) if number % 2 else (one,)))
    ]
    gaps = [later - sooner for sooner, later in pairwise(waited)]
    assert len(waited) < 60
    assert 64 <= min(gaps[-10:]) <= max(gaps[-10:]) <= 67
    assert company._vain < 10  # else it grows for weeks, and two to its power with it


def test_a_wait_that_pays_is_followed_by_others(clock: _Clock) -> None:
    """One in vain changes nothing when the next is not."""
    company = Company()
    company.sent(_of("a", "b", "c"))
    for _ in range(10):
        assert _waits_in_vain(company, clock, "a", "b")
        company.sent(_of("c"))
        assert company.is_awaited(1)
        assert company.is_awaited(1)
        assert not company.is_awaited(3)
        company.sent(_of("a", "b", "c"))
