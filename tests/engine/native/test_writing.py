"""Keys that are written in C give the records that Python packs, and are as ready for the next batch."""

from __future__ import annotations

import gc
import sys
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import native
from engine.batch.in_memory.listings import Listings
from engine.batch.in_memory.writing import mark_natively, mark_written, write_keys, write_natively
from engine.batch.keys.key import Key
from engine.batch.overlaid import DICT_SUBKEYS_MAX, KEPT_SUBKEYS_MAX, Subkeys
from engine.layouts import DEFAULT_LAYOUT, LAYOUTS, make_layout
from engine.layouts.layout import Kind
from engine.model import HASH, LIST, NONE, SET, STRING, ZSET
from engine.store.store import Changes
from slotlog.shared.slots import slot
from tests.engine.harness import new_store
from tests.engine.native.twins import machine_of, part_in_c

pytestmark = pytest.mark.layout(DEFAULT_LAYOUT)

LAST_VERSION: Final = 1 << 40
LAYOUT: Final = make_layout(DEFAULT_LAYOUT, 7, 1)

_EDGES: Final = [0, 0, 1, 2, -1, 1 << 63, (1 << 64) - 1, 1 << 64, 1 << 70]
_numbers = st.one_of(st.sampled_from(_EDGES), st.integers(0, 1 << 64))
_sizes = _numbers.filter(lambda size: not DICT_SUBKEYS_MAX < size <= KEPT_SUBKEYS_MAX)
_versions = st.sampled_from([0, 1 << 39, 1 << 41, 1 << 64])
_changes = st.dictionaries(
    st.binary(max_size=12), st.one_of(st.none(), st.binary(max_size=30), st.just(b"v" * 129)), max_size=4
)


def _subkeys(changed: dict[bytes, bytes | None], fresh: bool, order: bool) -> Subkeys:
    made = Subkeys("data", lambda key: None, lambda start, end, reverse: iter(()), b"prefix", fresh=fresh)
    made.changed = dict(changed)
    made.order = sorted(changed) if order else []
    return made


@st.composite
def _keys(draw: st.DrawFn) -> dict[str, Any]:
    """The attributes of a key: most can be, some cannot."""
    type_code = draw(st.sampled_from([NONE, STRING, HASH, LIST, SET, ZSET, 6, 8]))
    size, head = draw(st.one_of(st.integers(1, 9), _sizes)), draw(st.one_of(st.just(1 << 62), _numbers))
    expire_ms = draw(st.one_of(st.just(0), _numbers))
    return {
        "type": type_code,
        "name": draw(st.binary(max_size=9)),
        "expire_ms": expire_ms,
        "indexed_expire_ms": draw(st.one_of(st.just(expire_ms), _numbers)),
        "version": draw(st.one_of(st.just(0 if type_code <= STRING else 5), _versions)),
        "size": size,
        "head": head,
        "tail": draw(st.one_of(st.just(head + size), _numbers)),
        "value": draw(st.binary(max_size=20)),
        "changed": draw(st.booleans()),
        "touched": draw(st.booleans()),
        "data": (draw(_changes), draw(st.booleans()), draw(st.booleans())),
        "scores": (draw(_changes), draw(st.booleans()), draw(st.booleans())),
    }


def _made(facts: dict[str, Any]) -> Key:
    key = Key(0, facts["name"], LAYOUT.metadata_key(0, slot(facts["name"]), facts["name"]))
    for name, fact in facts.items():
        setattr(key, name, _subkeys(*fact) if name in {"data", "scores"} else fact)
    return key


def _seen(key: Key) -> dict[str, Any]:
    """Everything that a key holds."""
    facts = {name: getattr(key, name) for name in Key.__slots__ if name not in {"data", "scores"}}
    parts = {name: getattr(key, name) for name in ("data", "scores")}
    return facts | {
        name: (part.changed, part.fresh, part.order, part.prefix, *_kept(part)) for name, part in parts.items()
    }


def _kept(subkeys: Subkeys) -> tuple[object, ...]:
    """What a dict keeps. Of larger collections Python keeps nothing, and C packs it: test_packed.py."""
    return () if subkeys.kept is None else (subkeys.kept, subkeys.whole)


def _written(facts: list[dict[str, Any]], *, natively: bool) -> object:
    keys, changes, failure, more = [_made(each) for each in facts], Changes(), "", (0, 0)
    for number, key in enumerate(keys):
        key.data.prefix = b"prefix %d" % number
    hot = part_in_c()
    machine_of(new_store(), natively=True)  # it tells the part in C what keys are
    try:
        if natively:
            more = write_natively(hot, keys, LAYOUT, changes, LAST_VERSION, hot.PackedMemory(0))
        else:
            more = write_keys(keys, LAYOUT, changes, LAST_VERSION)
    except Exception as error:  # noqa: BLE001 - whatever it is, it must be the same
        failure = f"{type(error).__name__}: {error}"
    listings = Listings(lambda *_: [], None, 0)
    listings.held.update({key.data.prefix: b"" for key in keys})
    if not failure:
        if natively:
            mark_natively(hot, keys, listings)
        else:
            mark_written(keys, listings)
    records = {name: records for name, records in changes.values.items() if records}
    return failure, more, records, [_seen(key) for key in keys], listings.held


@given(st.lists(_keys(), max_size=5))
def test_any_keys_give_the_same(facts: list[dict[str, Any]]) -> None:
    """Records, errors, and what the keys are afterwards, also of keys that cannot be."""
    assert _written(facts, natively=False) == _written(facts, natively=True)


@given(st.one_of(st.binary(max_size=60), st.from_regex(rb"[{}ab]{0,9}", fullmatch=True)), st.integers(0, 15))
def test_metadata_keys_are_those_of_the_layout(name: bytes, db: int) -> None:
    """Slot, hash tags and length are as the layout has them."""
    hot = part_in_c()

    assert LAYOUT.metadata_key(db, slot(name), name) == hot.metadata_key(LAYOUT.kind_prefix(Kind.METADATA, db), name)


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_layout_packs_as_it_says(name: str) -> None:
    """Every layout that says it packs as `neokv` has its packing of metadata, and where metadata keys begin."""
    layout, neokv = make_layout(name, 7, 1), LAYOUTS["neokv"]
    if layout.packs_as is not None:
        assert native.PACKS_AS == layout.packs_as
        assert neokv.pack_metadata is type(layout).pack_metadata
        assert neokv.metadata_key is type(layout).metadata_key


def test_objects_of_other_types_are_for_python() -> None:
    """What is no key, or has lost a slot, is left to Python, and wrong arguments are an error."""
    hot = part_in_c()
    bare, broken = Key(0, b"k", b"m"), Key(0, b"k", b"m")
    bare.type, bare.version = HASH, 5  # it has no subkeys
    del broken.expire_ms, broken.changed
    for each in (None, object(), bare, broken):
        assert (0, 0, 0) == hot.write_keys([each], 0, {}, {}, {}, {}, {}, 9, 9, hot.PackedMemory(0))
        assert 0 == hot.mark_written([each], 0, {}, None)
    wrongs: list[Any] = [((), 0), ([], "0"), ([],), ([], 0, {}, {}, {}, {}, {}, 9, 9, None)]
    for wrong in wrongs:
        with pytest.raises(TypeError):
            hot.mark_written(*wrong)
        with pytest.raises(TypeError):
            hot.write_keys(*wrong)
    assert 5 == hot.mark_written([], 5, {}, None)
    assert 0 == hot.mark_written([], -1, {}, None)
    assert (0, 0, 0) == hot.write_keys([], -1, {}, {}, {}, {}, {}, 9, 9, hot.PackedMemory(0))


def test_the_collector_looks_at_no_string_in_memory() -> None:
    """A key of one record refers to bytes and numbers alone, so it is not walked over; one that becomes a hash is."""
    machine = machine_of(new_store(), natively=True)

    def written(offset: int, name: bytes, args: list[Any]) -> Key:
        machine.apply([(offset, 1, name, args, 0, None, None)], offset, frozenset())
        machine.commit(None)
        return machine._tx._overlay.databases[0][b"k"]

    string = written(0, b"SET", [b"k", b"v"])
    assert not gc.is_tracked(string)
    assert string is written(1, b"SET", [b"k", b"w"])
    assert not gc.is_tracked(string)
    assert not gc.is_tracked(written(2, b"DEL", [b"k"]))
    assert gc.is_tracked(written(3, b"HSET", [b"k", b"f", b"v"]))
    assert gc.is_tracked(written(4, b"XADD", [b"l", b"1-1", b"f", b"v"]))
    written(5, b"DEL", [b"k"])
    assert gc.is_tracked(written(6, b"XADD", [b"k", b"1-1", b"f", b"v"]))


def test_nothing_leaks() -> None:
    """Written again and again, keys leave as many objects and references behind as before."""
    hot = part_in_c()
    listings = Listings(lambda *_: [], None, 0)
    packed = hot.PackedMemory(0)
    types = ((STRING, 0), (HASH, 5), (LIST, 5), (SET, 5), (ZSET, 5), (NONE, 0))
    keys = []
    for type_code, version in types:
        key = Key(0, b"k", b"m%d" % type_code)
        key.type, key.version, key.size, key.tail = type_code, version, 3, key.head + 3
        key.data, key.scores = _subkeys({}, False, False), _subkeys({}, False, False)
        key.data.prefix = b"prefix %d" % type_code
        keys.append(key)

    def left() -> tuple[int, int, int]:
        for _ in range(300):
            for key in keys:
                key.changed = key.touched = True
                key.data.changed[b"f"] = key.scores.changed[b"s"] = b"v"
                key.data.order.append(b"f")
                listings.held[key.data.prefix] = b"listing"
            changes = Changes()
            write_natively(hot, keys, LAYOUT, changes, LAST_VERSION, packed)
            mark_natively(hot, keys, listings)
        gc.collect()
        return sys.getallocatedblocks(), sys.getrefcount(None), sys.getrefcount(False)

    left()
    before, after = left(), left()

    assert all(abs(now - then) < 50 for then, now in zip(before, after, strict=True)), (before, after)
