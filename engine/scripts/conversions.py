"""Replies as Lua values, and back. The rules: https://redis.io/docs/latest/develop/programmability/lua-api/."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.values.replies import NIL_ARRAY, Reply, Status


def to_lua(reply: Reply, table: Callable[[Any], Any]) -> Any:
    """A command's reply as a Lua value; `table` makes a Lua table of a list or dict."""
    if reply is None or reply is NIL_ARRAY:
        return False
    if type(reply) is Status:
        return table({b"ok": bytes(reply)})
    if type(reply) is list:
        return table([to_lua(element, table) for element in reply])
    return reply


def to_reply(value: Any) -> Reply:
    """What a script returned as a reply."""
    if value is False:
        return None
    return int(value) if isinstance(value, float) else value
