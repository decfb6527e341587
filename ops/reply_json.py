"""Replies as JSON values."""

from __future__ import annotations

import base64
from typing import Any

from engine.errors import CommandError
from engine.values.replies import NIL_ARRAY, Map, Pairs, Reply
from slotlog.shared.doubles import format_double


def as_json(reply: Reply) -> Any:
    """The reply as a JSON value; bytes that are no UTF-8 as {"base64": "…"}, an error as {"error": "…"}."""
    if isinstance(reply, CommandError):
        return {"error": reply.message}
    if reply is NIL_ARRAY:
        return None
    if isinstance(reply, Map | Pairs | list):
        return [as_json(list(element) if isinstance(element, tuple) else element) for element in reply]
    if isinstance(reply, float):
        return reply if abs(reply) != float("inf") else format_double(reply).decode()
    return bytes_as_json(reply) if isinstance(reply, bytes) else reply


def bytes_as_json(value: bytes) -> Any:
    """A string, or {"base64": "…"} for bytes that are no UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}
