"""Replies as bytes: what goes into the idempotency table comes out with the same types."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import CommandError, CorruptionError
from engine.values.replies import (
    NIL_ARRAY,
    OK,
    BigNumber,
    Digits,
    Map,
    Named,
    Pairs,
    Reply,
    Set,
    Status,
    Verbatim,
    pack,
    unpack,
)
from tests.engine.harness import shape

SCALARS = st.one_of(
    st.none(),
    st.just(NIL_ARRAY),
    st.integers(-(2**63), 2**63 - 1),
    st.binary(max_size=20),
    st.binary(max_size=20).map(Status),
    st.binary(max_size=20).map(Digits),
    st.binary(max_size=20).map(BigNumber),
    st.builds(Verbatim, st.binary(max_size=20), st.binary(max_size=5)),
    st.booleans(),
    st.floats(allow_nan=False),
    st.text(max_size=20).map(CommandError),
)
REPLIES: st.SearchStrategy[Reply] = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(Set),
        st.lists(st.tuples(inner, inner), max_size=4).map(Map),
        st.lists(st.tuples(st.binary(max_size=5), inner), max_size=4).map(Named),
        st.lists(st.tuples(st.binary(max_size=5), st.floats(allow_nan=False)), max_size=4).map(Pairs),
    ),
    max_leaves=12,
)


@given(REPLIES)
def test_a_reply_comes_back_with_its_types(reply: Reply) -> None:
    """Packing and unpacking gives the same values of the same types, however deep."""
    assert shape(reply) == shape(unpack(pack(reply)))


@pytest.mark.parametrize("number", [-1, 0, 9, 10, 255, 256])
def test_an_integer_has_one_form_whether_its_bytes_are_kept_or_made(number: int) -> None:
    """The smallest are packed beforehand."""
    digits = str(number).encode()
    assert pack(number) == b":" + len(digits).to_bytes(4, "big") + digits


def test_error_texts_with_any_bytes_come_back() -> None:
    """An error that quotes bytes which are no UTF-8 keeps them."""
    message = b"ERR unknown word '\xff\xfe'".decode(errors="surrogateescape")

    assert message == unpack(pack(CommandError(message))).message


@given(REPLIES, st.data())
def test_a_cut_reply_is_corrupt(reply: Reply, data: st.DataObject) -> None:
    """No part of a packed reply passes for a reply."""
    packed = pack(reply)
    cut = data.draw(st.integers(0, len(packed) - 1))

    with pytest.raises(CorruptionError, match="a stored reply"):
        unpack(packed[:cut])


def test_more_than_a_reply_is_corrupt() -> None:
    """Bytes after the end of a packed reply are not passed over."""
    with pytest.raises(CorruptionError, match="bytes after its end"):
        unpack(pack(OK) + b"_")


@given(st.binary(max_size=40))
def test_any_bytes_are_a_reply_or_corrupt(data: bytes) -> None:
    """Whatever stands on disk is a reply that packs to the same bytes, or CorruptionError: never another exception."""
    try:
        reply = unpack(data)
    except CorruptionError:
        return
    assert shape(reply) == shape(unpack(pack(reply)))
