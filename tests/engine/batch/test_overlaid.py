"""The subkeys of a collection inside a batch: stored ones, overlaid with what the batch has changed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.batch.overlaid import Scan, Subkeys
from engine.store.memory import MemoryStore
from engine.store.store import Changes

PREFIX = b"key\xff"
NEIGHBOURS = {b"key": b"below", b"key\xfe": b"below", b"kez": b"above"}
SUBKEYS = st.one_of(st.sampled_from([b"", b"\x00", b"a", b"a\x00", b"b", b"\xff", b"\xff\xff"]), st.binary(max_size=2))
VALUES = st.binary(max_size=2)
SCANS = st.tuples(SUBKEYS, st.one_of(st.none(), SUBKEYS), st.booleans())
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), SUBKEYS, VALUES),
        st.tuples(st.just("remove"), SUBKEYS),
        st.tuples(st.just("scan"), SCANS),
    ),
    max_size=30,
)


def bind(stored: dict[bytes, bytes], *, fresh: bool = False) -> tuple[MemoryStore, Subkeys]:
    """Subkeys under PREFIX over a store that also holds keys of others."""
    store = MemoryStore(("family",))
    changes = Changes()
    changes.of("family").update(NEIGHBOURS)
    changes.of("family").update({PREFIX + subkey: value for subkey, value in stored.items()})
    store.write(changes)

    def scan(start: bytes, end: bytes, *, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        return store.scan("family", start, end, reverse=reverse)

    bound: Scan = scan
    return store, Subkeys("family", store.getter("family"), bound, PREFIX, fresh=fresh)


def model_scan(
    model: dict[bytes, bytes], start: bytes, end: bytes | None, *, reverse: bool
) -> list[tuple[bytes, bytes]]:
    """What a scan of a plain dict gives."""
    chosen = sorted(item for item in model.items() if start <= item[0] and (end is None or item[0] < end))
    return chosen[::-1] if reverse else chosen


@given(stored=st.dictionaries(SUBKEYS, VALUES, max_size=8), fresh=st.booleans(), steps=STEPS)
def test_scans_see_stored_and_changed(stored: dict[bytes, bytes], fresh: bool, steps: list[tuple[object, ...]]) -> None:
    """After any puts and removes every scan gives what a plain dict would: any range, both ways, and `get` agrees."""
    model = {} if fresh else dict(stored)
    _, subkeys = bind({} if fresh else stored, fresh=fresh)
    for step in steps:
        match step:
            case ("put", bytes(subkey), bytes(value)):
                subkeys.put(subkey, value)
                model[subkey] = value
            case ("remove", bytes(subkey)) if subkey in model:
                subkeys.remove(subkey)
                del model[subkey]
            case ("scan", (bytes(start), end, bool(reverse))) if end is None or isinstance(end, bytes):
                expected = model_scan(model, start, end, reverse=reverse)
                assert expected == list(subkeys.scan(start, end, reverse=reverse))

    assert sorted(model.items()) == list(subkeys.scan())
    assert [model.get(subkey) for subkey in sorted(stored)] == [subkeys.get(subkey) for subkey in sorted(stored)]


@pytest.mark.parametrize("added", [1, 8, 9, 100])
def test_few_and_many_new_subkeys_between_scans(added: int) -> None:
    """The order is kept right whether a scan finds few new changes, which it inserts, or many, which it sorts."""
    _, subkeys = bind({b"m": b"stored"})
    for round_ in range(3):
        for n in range(added):
            subkeys.put(b"%d %d" % ((n * 7919 + round_) % added, round_), b"")
        assert 1 + added * (round_ + 1) == len(list(subkeys.scan()))

    assert sorted(subkey for subkey, _ in subkeys.scan()) == [subkey for subkey, _ in subkeys.scan()]


def test_a_fresh_collection_does_not_ask_the_store() -> None:
    """Under a version that nothing is stored for, neither `get` nor `scan` reads the store."""

    def unexpected(*args: object) -> None:
        pytest.fail(f"the store was asked for {args}")

    subkeys = Subkeys("family", unexpected, unexpected, PREFIX, fresh=True)  # type: ignore[arg-type] # they never return
    subkeys.put(b"a", b"1")

    assert [(b"a", b"1")] == list(subkeys.scan(b"", b"b", reverse=True))
    assert subkeys.get(b"b") is None


def test_written_changes_are_the_store_s() -> None:
    """After `written` the overlay is empty and the store is asked again, fresh or not."""
    store, subkeys = bind({}, fresh=True)
    subkeys.put(b"a", b"1")
    changes = Changes()
    changes.of("family").update({PREFIX + subkey: value for subkey, value in subkeys.changed.items()})
    store.write(changes)
    subkeys.written()
    subkeys.put(b"b", b"2")

    assert {b"b": b"2"} == subkeys.changed
    assert [(b"a", b"1"), (b"b", b"2")] == list(subkeys.scan())


def test_an_abandoned_scan_disturbs_nothing() -> None:
    """A scan that is not walked to its end, as a pop of the lowest score does, leaves the next one whole."""
    _, subkeys = bind({b"a": b"1", b"c": b"3"})
    subkeys.put(b"b", b"2")

    assert (b"a", b"1") == next(subkeys.scan())
    assert [b"c", b"b", b"a"] == [subkey for subkey, _ in subkeys.scan(reverse=True)]
