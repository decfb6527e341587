"""The page at `/`, which draws `/status`: four files and an icon, without a build step."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, Protocol

from aiohttp import web

_FILES: Final = {
    "/": ("index.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
    "/history.js": ("history.js", "text/javascript"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    ),
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_FRESH: Final = {**_HEADERS, "Cache-Control": "no-store"}
_FILE: Final = {**_HEADERS, "Cache-Control": "no-cache"}


class Status(Protocol):
    """The status of a service, as the page draws it."""

    async def document(self) -> dict[str, Any]:
        """What `/status` answers; empty while nothing is known."""
        ...

    async def close(self) -> None:
        """Look no more."""
        ...


def add_page(router: web.UrlDispatcher, status: Status) -> None:
    """Serve the page's files and the document that it draws."""
    for path, (name, content_type) in _FILES.items():
        router.add_get(path, _giver(name, content_type))

    async def answer(_request: web.Request) -> web.Response:
        document = await status.document()
        return web.json_response(document, status=200 if document else 503, headers=_FRESH)

    router.add_get("/status", answer)


def _giver(name: str, content_type: str) -> Callable[[web.Request], Awaitable[web.Response]]:
    body = (Path(__file__).parents[2] / "page" / name).read_bytes()

    async def give(_request: web.Request) -> web.Response:
        return web.Response(body=body, content_type=content_type, charset="utf-8", headers=_FILE)

    return give
