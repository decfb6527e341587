"""Replies that only the RESP server has, in addition to `engine.values.replies`.

    Verbatim -> verbatim string (bulk string in RESP2)      Push -> push (array in RESP2)
    True, False -> boolean (:1 and :0 in RESP2)             NO_REPLY -> nothing: the handler has sent, or will send
    Attributed -> attributes and the reply that they are about (the reply alone in RESP2)

Unlike the engine's replies they are never stored, so `engine.values.replies.pack` does not know them.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from engine.values.replies import Map, Reply


class Push(list[Any]):
    """An unsolicited message, such as one of Pub/Sub. Its first element is its kind."""

    __slots__ = ()


class Attributed(NamedTuple):
    """A reply with attributes, which a client may leave aside."""

    attributes: Map
    reply: Reply


class _NoReply:
    __slots__ = ()

    def __repr__(self) -> str:
        return "NO_REPLY"


NO_REPLY: Final = _NoReply()
"""What a handler returns that answers by itself. Encodes to nothing."""
