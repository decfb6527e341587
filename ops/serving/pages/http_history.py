"""`POST /history`: the history of a key for the page at `/`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from aiohttp import web

from ops.addresses import is_loopback
from ops.reply_json import as_json

_KEY_BYTES_MAX: Final = 4096
_TEXT_MAX: Final = 2000
"""Characters of a value, or of a command."""

_HEADERS: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}

Answer = Callable[[bytes, int], Awaitable[tuple[int, dict[str, Any]]]]
"""Gives the last events of a key by its name and database: a status of HTTP, and the document for the page."""


def add_history(router: web.UrlDispatcher, history: Answer, *, any_host: bool) -> None:
    """Serve `POST /history`: `{"key": …, "db": 0}`. As JSON, so that no other site's form can ask.

    Args:
        router: gets the route.
        history: answers who may ask.
        any_host: whoever asks is known to be allowed to reach the service, under whatever name.
    """

    async def answer(request: web.Request) -> web.Response:
        if not any_host and not is_loopback(request.url.host or ""):  # a name that somebody lets point here
            return _told({"error": "open the page at 127.0.0.1 or localhost"}, 403)
        wanted = await _wanted(request)
        if wanted is None:
            return _told({"error": 'the body is {"key": "…", "db": 0}, as application/json'}, 400)
        status, document = await history(*wanted)
        return _told(document, status)

    router.add_post("/history", answer)


async def _wanted(request: web.Request) -> tuple[bytes, int] | None:
    """Key and database; None: the request does not say them."""
    if request.content_type != "application/json" or (request.content_length or 0) > 2 * _KEY_BYTES_MAX:
        return None
    try:
        body = await request.json()
        key, db = body["key"].encode(errors="surrogateescape"), body.get("db", 0)
    except (ValueError, KeyError, AttributeError, TypeError):
        return None
    return (key, db) if len(key) <= _KEY_BYTES_MAX and isinstance(db, int) and 0 <= db < 16 else None


def _told(document: dict[str, Any], status: int) -> web.Response:
    return web.json_response(document, status=status, headers=_HEADERS)


def shown_event(row: dict[bytes, Any]) -> dict[str, Any]:
    """One row of a history, with long texts cut."""
    return {
        "offset": row[b"offset"],
        "time_ms": row[b"time_ms"],
        "command": _text(row[b"command"]),
        "id": None if row[b"id"] is None else _text(row[b"id"]),
        "meta": None if row[b"meta"] is None else _text(row[b"meta"]),
        "outcome": row[b"outcome"].decode(),
        "reply": _text(row[b"reply"]),
        "changed": bool(row[b"changed"]),
        "before": _value(row[b"before"]),
        "after": _value(row[b"after"]),
    }


def _value(value: Any) -> dict[str, Any] | None:
    if value is None:
        return None
    found = dict(value)
    return {
        "type": found[b"type"].decode(),
        "value": _text(found[b"value"]),
        "expire_ms": found[b"expire_ms"] if found[b"expire_ms"] >= 0 else None,
    }


def _text(value: Any) -> str:
    """As people write it: words with spaces between them, what is inside of others in brackets."""
    shown = as_json(value)
    text = " ".join(map(_word, shown)) if isinstance(shown, list) else _word(shown)
    return text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}… ({len(text):,} characters)"


def _word(value: Any) -> str:
    if isinstance(value, list):
        return f"[{' '.join(map(_word, value))}]"
    if isinstance(value, dict):
        return "; ".join(f"{name} {_word(each)}" for name, each in value.items())
    return "nil" if value is None else str(value)
