"""Payloads of DUMP compared by content, and payloads for RESTORE in several servers' encodings.

No sorted set among them has different scores, so that they may stand in keys of which `BYLEX` is asked.
"""

from __future__ import annotations

from typing import Any, Final

from engine.layouts.layout import Form
from engine.model import HASH, LIST, SET, STREAM, STRING, ZSET
from engine.values.rdb.content import Content
from engine.values.rdb.encode import encode, seal
from engine.values.streams import NEVER, StreamPart
from tests.layouts import holds

_VALKEY_9: Final = 80
_REDIS_7_2: Final = 11

CONTENTS: Final = (
    Content(STRING, [b"10"]),
    Content(STRING, [b"\x00\xff\r\n"]),
    Content(LIST, [b"a", b"b", b"10", b""]),
    Content(SET, [b"1", b"2", b"30"]),
    Content(SET, [b"a", b"b", b"1"]),
    Content(HASH, [b"a", b"1", b"b", b"hello", b"field " * 12, b""]),
    Content(HASH, [b"a", b"1", b"b", b"2", b"c", b"3"], expires_ms=[4_102_444_800_000, 0, 4_200_000_000_123]),
    Content(HASH, [b"d", b"1"], expires_ms=[4_102_444_800_001]),
    Content(ZSET, [b"a", b"b", b"\x00"], [0.0, 0.0, 0.0]),
)
PACKED: Final = (
    b"\x12\x01\x02\x0c\x0c\x00\x00\x00\x02\x00\x81a\x02\x01\x01\xff",  # quicklist of a listpack: a, 1
    b"\x12\x02\x01\x03abc\x01\x01d",  # quicklist of plain nodes: abc, d
    b"\x0b\x0c\x02\x00\x00\x00\x02\x00\x00\x00\x01\x00\x02\x00",  # intset: 1, 2
    b"\x14\x0a\x0a\x00\x00\x00\x01\x00\x81a\x02\xff",  # listpack of a set: a
    b"\x10\x0d\x0d\x00\x00\x00\x02\x00\x81f\x02\x81v\x02\xff",  # listpack of a hash: f v
    b"\x11\x0c\x0c\x00\x00\x00\x02\x00\x81a\x02\x00\x01\xff",  # listpack of a sorted set: a 0
    b"\x00\xc3\x09@d\x01aa\xe0W\x00\x01aa",  # LZF: a hundred times "a"
    b"\x0a\x10\x10\x00\x00\x00\x0d\x00\x00\x00\x02\x00\x00\x01a\x03\xf6\xff",  # ziplist of a list: a, 5
    b"\x09\x0c\x02\x01f\x01\x00v\x01g\x01\x00w\xff",  # zipmap: f v, g w
)

_HELD: Final = [content for content in CONTENTS if holds(Form.FIELD_TIMES) or not any(content.expires_ms or ())]
USUAL: Final = (*map(encode, _HELD), *(seal([value], _REDIS_7_2) for value in PACKED))
UNUSUAL: Final = (
    b"",
    b"abc",
    USUAL[0][:-1],
    USUAL[0][:-1] + b"\x00",
    *(seal([value], version) for value in (b"\x00\x05hello",) for version in (0, 81, 79)),
    *(
        seal([value], _VALKEY_9)
        for value in (b"", b"\x00", b"\x00\x3fabc", b"\x02\x00", b"\x02\x02\x01a\x01a", b"\x63", b"\x00\x01a junk")
    ),
)


def in_order(content: Content) -> tuple[int, Any]:
    """The type and the content, in the order that the type has, or by bytes where it has none."""
    texts = content.texts
    if content.type == SET:
        return SET, sorted(texts)
    if content.type == HASH:
        times = content.expires_ms or [0] * (len(texts) // 2)
        return HASH, sorted(zip(texts[::2], texts[1::2], times, strict=True))
    if content.type == ZSET:
        return ZSET, sorted(zip(content.scores, texts, strict=True))
    if content.stream is not None:
        return STREAM, _without_moments(content.stream)
    return content.type, texts


def _without_moments(stream: StreamPart) -> Any:
    """A stream without when consumers were seen and entries delivered."""
    state = stream.state
    assert state is not None
    groups = [
        (
            *group[:3],
            [(each.name, each.active_ms == NEVER) for each in group.consumers],
            [(entry.id, entry.consumer, entry.deliveries) for entry in group.pending],
        )
        for group in state.groups
    ]
    return stream.entries, *state[:3], groups
