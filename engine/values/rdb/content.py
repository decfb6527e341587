"""The content of a payload, in any encoding."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from engine.model import HASH
from engine.values import streams
from engine.values.streams import StreamPart


class Content(NamedTuple):
    """One value.

    Attributes:
        type: a type code of `engine.model`.
        texts: a string's value alone; a list's elements in order; the members of a set or sorted set, no two alike; a
            hash's fields and values, alternating, no field twice.
        scores: of a sorted set's members, one each; none is NaN.
        expires_ms: of a hash's fields, one each; 0 for never, else at least 1. Empty when no field has one.
        stream: of a stream, which has no `texts`.
    """

    type: int
    texts: list[bytes]
    scores: Sequence[float] = ()
    expires_ms: Sequence[int] = ()
    stream: StreamPart | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no key could hold it: a stream may be without entries."""
        return not self.texts and self.stream is None

    @property
    def strings(self) -> int:
        """How many texts it has, those of a stream's entries included."""
        return len(self.texts) + (0 if self.stream is None else sum(len(each.texts) for each in self.stream.entries))

    def without_due_fields(self, now_ms: int) -> Content:
        """The same without the fields whose time has come; what is left may be no field at all."""
        if self.type != HASH or not any(0 < expire_ms <= now_ms for expire_ms in self.expires_ms):
            return self
        triples = zip(self.texts[::2], self.texts[1::2], self.expires_ms, strict=True)
        left = [triple for triple in triples if not 0 < triple[2] <= now_ms]
        texts = [text for field, value, _ in left for text in (field, value)]
        expires_ms = [expire_ms for _, _, expire_ms in left]
        return Content(HASH, texts, expires_ms=expires_ms if any(expires_ms) else ())


def joined(parts: Iterable[Content]) -> Content | None:
    """The content of which these are the parts; None where there is none."""
    kind = None
    texts: list[bytes] = []
    scores: list[float] = []
    expires_ms: list[int] = []
    of_stream: list[StreamPart] = []
    for part in parts:
        kind = part.type
        if part.stream is not None:
            of_stream.append(part.stream)
        texts += part.texts
        scores += part.scores
        if kind == HASH:
            expires_ms += part.expires_ms or [0] * (len(part.texts) // 2)
    if kind is None:
        return None
    stream = streams.joined(of_stream) if of_stream else None
    return Content(kind, texts, scores or (), expires_ms if any(expires_ms) else (), stream)
