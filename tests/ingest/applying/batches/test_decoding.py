"""Batches, decoded in C or in Python, give the events that `slotlog.events.decode` gives, whatever their bytes."""

from __future__ import annotations

import gc
import sys
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgpack import packb

from engine import native
from ingest.applying.batches.decoding import decode_batch
from slotlog.events import NAMES_BY_HEAD, decode, encode, event_head
from slotlog.log import LogRecord
from tests.engine.native.twins import running

_NAMES: Final = ["SET", "set", "Set", "HSET", "EXEC", "exec", "NOPE", "", "x" * 22, "x" * 23, "x" * 31]
_ARGUMENTS: Final = st.one_of(
    st.binary(max_size=40),
    st.text(max_size=20),
    st.sampled_from([31, 32, 255, 256, 1000]).map(bytes),
    st.integers(-(1 << 63), (1 << 64) - 1),
    st.integers(-140, 70_000),
    st.floats(),
    st.sampled_from([True, None, [], [b"x"], {}, b"\xff"]),
)
_IDS: Final = st.one_of(st.text(max_size=9), st.binary(max_size=66), st.sampled_from([bytes(64), bytes(65), "x" * 64]))
_EVENTS: Final = st.one_of(
    st.builds(
        lambda name, args: event_head(name.encode()) + packb(args),
        st.sampled_from(_NAMES),
        st.lists(_ARGUMENTS, max_size=20),
    ),
    st.builds(lambda name, args: encode(name, args, db=3), st.sampled_from(_NAMES), st.lists(_ARGUMENTS, max_size=4)),
    st.builds(
        lambda name, args, event_id: encode(name, args, id=event_id),
        st.sampled_from(_NAMES),
        st.lists(_ARGUMENTS, max_size=4),
        _IDS,
    ),
    st.builds(
        lambda args, event_id: encode("EXEC", args, id=event_id),
        st.lists(st.lists(_ARGUMENTS, max_size=4), max_size=3),
        st.one_of(st.none(), _IDS),
    ),
)


@st.composite
def _damaged(draw: st.DrawFn) -> bytes:
    """An event of which a byte is another one, or that is cut short, or longer."""
    value = bytearray(draw(_EVENTS))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, max(0, len(value) - 1)))
        value[at : at + 1] = draw(st.binary(max_size=2))
    return bytes(value[: draw(st.integers(0, len(value)))] if draw(st.booleans()) else value)


def _both(values: list[Any]) -> tuple[object, object]:
    batch: list[LogRecord] = [(n, n * 1000, None, value) for n, value in enumerate(values)]
    with running(natively=True):
        in_c = decode_batch(batch)
    with running(natively=False):
        python = decode_batch(batch)
    assert repr([decode(offset, time_ms, value) for offset, time_ms, _, value in batch]) == repr(python)
    return repr(in_c), repr(python)


@settings(max_examples=400)
@given(st.lists(st.one_of(_EVENTS, _damaged(), st.binary(max_size=60), st.none()), max_size=6))
def test_any_bytes_give_the_same(values: list[bytes | None]) -> None:
    """Events of all kinds, damaged ones, and bytes that are none."""
    in_c, python = _both(values)

    assert python == in_c


def test_every_head_and_every_cut_gives_the_same() -> None:
    """The names of all commands in both cases; one event, cut at each place, and with each byte at each place."""
    whole = encode("HSET", [b"k", 5, -1, 200, -200, 70_000, -70_000, 1 << 40, -(1 << 40), b"x" * 40, "y" * 300])
    values = [head + packb([b"k", 1]) for head in NAMES_BY_HEAD]
    values += [whole[:end] for end in range(len(whole))]
    values += [whole[:at] + bytes((byte,)) + whole[at + 1 :] for at in range(60) for byte in range(256)]
    exec_ = encode("EXEC", [["SET", "k", 5], ["LPUSH", b"l", -1, "x"]], id="an id")
    values += [exec_[:end] for end in range(len(exec_))]
    values += [exec_[:at] + bytes((byte,)) + exec_[at + 1 :] for at in range(len(exec_)) for byte in range(256)]
    values += [
        exec_ + b"\xc0",
        encode("INCR", ["n"], id=""),
        encode("INCR", ["n"], id="i")[:-4] + packb("db") + packb(3),
    ]
    in_c, python = _both(values)

    assert python == in_c


def test_sizes_at_their_bounds_give_the_same() -> None:
    """Records of about 1,024 bytes, above which headers are walked first; arrays of 15, 16 and very many arguments."""
    values = [encode("SET", [b"k", bytes(size)]) for size in range(980, 1010)]
    values += [encode("SADD", [b"m"] * count) for count in (0, 1, 15, 16, 17, 300, 70_000)]
    values += [event_head(b"SADD") + b"\xdc\xff\xff", event_head(b"SADD") + b"\xdd\xff\xff\xff\xff" + bytes(40)]
    in_c, python = _both(values)

    assert python == in_c


@pytest.mark.parametrize("record", [(1, 2, None), [1, 2, None, b""], None, (1, 2, None, b"", 5)], ids=repr)
def test_what_is_no_record_is_refused(record: Any) -> None:
    """An object of another form is an error, not a crash."""
    with running(natively=True), pytest.raises((TypeError, ValueError)):
        decode_batch([record])


def test_a_planted_difference_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the twin made another event of these bytes, the comparison would show it."""
    monkeypatch.setitem(NAMES_BY_HEAD, event_head(b"SET"), b"SETNX")
    with running(natively=True):
        in_c = decode_batch([(1, 2, None, encode("SET", [b"k", 5]))])
    monkeypatch.undo()

    assert in_c != [decode(1, 2, encode("SET", [b"k", 5]))]


def test_nothing_leaks() -> None:
    """Decoded again and again, right and wrong bytes leave as many objects and references behind as before."""
    values = [*(encode("SET", [b"k%d" % n, n * 1000]) for n in range(200)), b"\x83", None, encode("EXEC", [["SET"]])]
    batch: list[LogRecord] = [(n, n, None, value) for n, value in enumerate(values)]
    assert native.IS_BUILT

    def left() -> tuple[int, int, int]:
        with running(natively=True):
            for _ in range(50):
                decode_batch(batch)
        gc.collect()
        return sys.getallocatedblocks(), sys.getrefcount(None), sys.getrefcount(0)

    left()
    before, after = left(), left()

    assert all(abs(now - then) < 50 for then, now in zip(before, after, strict=True)), (before, after)
