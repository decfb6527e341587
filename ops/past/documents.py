"""Events with what came of them, and values of keys, as JSON documents."""

from __future__ import annotations

from typing import Any

from ops.past.history import Touch, Value
from ops.reply_json import as_json, bytes_as_json


def touch_as_json(touch: Touch) -> dict[str, Any]:
    """An event, with the key before and after it where they are known."""
    shown = (
        {"before": value_as_json(touch.before), "after": value_as_json(touch.after)} if touch.before is not None else {}
    )
    return {
        "offset": touch.offset,
        "time_ms": touch.time_ms,
        "command": _plain(list(touch.command)),
        "id": None if touch.event_id is None else bytes_as_json(touch.event_id),
        "meta": _plain(touch.meta),
        "outcome": touch.outcome,
        "reply": as_json(touch.reply),
        "changed": touch.changed,
        **shown,
    }


def _plain(value: Any) -> Any:
    """What msgpack may hold, for JSON."""
    if isinstance(value, dict):
        return {str(_plain(name)): _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return bytes_as_json(value) if isinstance(value, bytes) else value


def value_as_json(value: Value | None) -> Any:
    """A key at one moment, for JSON."""
    if value is None or value.type == b"none":
        return None
    return {
        "type": value.type.decode(),
        "value": as_json(value.content),
        "expire_ms": value.expire_ms if value.expire_ms >= 0 else None,
    }
