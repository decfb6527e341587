"""Serves `/metrics`, `/livez`, `/readyz` and the page, on loopback by default.

Keys and values are in the history of a key alone, which the page asks for on demand (`http_history.py`).
With a password everything but `/livez` and `/readyz` asks for it: those are for whoever restarts the process.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Awaitable, Callable
from hmac import compare_digest
from pathlib import Path
from typing import Any, Final, Protocol

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from ops.addresses import is_loopback, parse_address
from ops.config import ConfigError, Settings
from ops.serving.pages.http_history import Answer, add_history
from ops.serving.pages.http_page import Status, add_page

CONNECTIONS_MAX: Final = 64
"""With one more the oldest one is closed, so that half-open connections shut out neither probes nor Redis clients."""

IDLE_SECONDS: Final = 10.0
"""So long may a connection take for its request, and be kept without another one."""

USER: Final = "slotlog"
_OPEN: Final = frozenset({"/livez", "/readyz"})

logger = structlog.get_logger(__name__)

Exposition = Callable[[], Awaitable[bytes]]
"""Gives what `/metrics` answers."""


class Asked(Protocol):
    """The health of a service, as it is asked for."""

    def stuck(self) -> str:
        """Why a restart is needed; empty while it is not."""
        ...

    async def readiness(self) -> dict[str, Any]:
        """What `/readyz` answers."""
        ...


async def start_http(
    settings: Settings, exposition: Exposition, health: Asked, status: Status, history: Answer
) -> HttpServer:
    """A server that listens where the settings say.

    Raises:
        ConfigError: it cannot listen there.
    """
    host, _ = parse_address(settings.http)
    password = settings.http_password.get_secret_value()
    if not is_loopback(host) and not password:
        logger.warning("http_is_public", address=settings.http, hint="set SLOTLOG_HTTP_PASSWORD, or keep it inside")
    server = HttpServer(exposition, health, status, history, password)
    try:
        await server.start(settings.http)
    except OSError as error:
        raise ConfigError(f"--http {settings.http} cannot be listened on: {error.strerror}") from error
    logger.info("http", port=server.port)
    return server


class HttpServer:
    """The service's HTTP face.

    Args:
        exposition: gives what `/metrics` answers.
        health: what `/livez` and `/readyz` answer.
        status: what the page shows.
        history: answers for the histories of keys.
        password: of the user `slotlog`; empty: none is asked for.
    """

    def __init__(
        self, exposition: Exposition, health: Asked, status: Status, history: Answer, password: str = ""
    ) -> None:
        self._history = history
        self._password = password
        self._exposition = exposition
        self._health = health
        self._status = status
        self._runner: web.AppRunner | None = None
        self._listener: asyncio.Server | None = None
        self.port = 0

    async def start(self, address: str) -> None:
        """Listen on HOST:PORT; `port` then says which (0 asks for a free one). OSError when it is taken."""
        host, port = parse_address(address)
        await self._prepare(any_host=bool(self._password))
        self._listener = await asyncio.get_running_loop().create_server(self._admit, host, port)
        self.port = int(self._listener.sockets[0].getsockname()[1])

    async def start_unix(self, path: Path) -> None:
        """Listen on a Unix socket instead. OSError when it cannot be made."""
        await self._prepare(any_host=True)
        self._listener = await asyncio.get_running_loop().create_unix_server(self._admit, path)

    async def _prepare(self, *, any_host: bool) -> None:
        app = web.Application(middlewares=[_asking(self._password)] if self._password else [])
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/livez", self._livez)
        app.router.add_get("/readyz", self._readyz)
        add_page(app.router, self._status)
        add_history(app.router, self._history, any_host=any_host)
        self._runner = web.AppRunner(
            app, access_log=None, shutdown_timeout=1.0, keepalive_timeout=IDLE_SECONDS, lingering_time=1.0
        )
        await self._runner.setup()

    async def close(self) -> None:
        """Stop listening."""
        if self._listener is not None:
            self._listener.close()
        if self._runner is not None:
            await self._runner.cleanup()
        await self._status.close()

    def _admit(self) -> web.RequestHandler:
        """The protocol of a new connection."""
        assert self._runner is not None
        server = self._runner.server
        assert server is not None
        there = [each for each in server.connections if each.transport is not None]
        for each in there[: max(0, len(there) + 1 - CONNECTIONS_MAX)]:
            each.force_close()
        return server()

    async def _metrics(self, _request: web.Request) -> web.Response:
        return web.Response(
            body=await self._exposition(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        )

    async def _livez(self, _request: web.Request) -> web.Response:
        stuck = self._health.stuck()
        body = {"live": False, "reason": stuck} if stuck else {"live": True}
        return web.json_response(body, status=503 if stuck else 200)

    async def _readyz(self, _request: web.Request) -> web.Response:
        body = await self._health.readiness()
        return web.json_response(body, status=200 if body["ready"] else 503)


def _asking(password: str) -> Middleware:
    """Refuses whoever does not show the password, but for the two questions about health."""
    wanted = b64encode(f"{USER}:{password}".encode())

    @web.middleware
    async def ask(request: web.Request, handler: Handler) -> web.StreamResponse:
        scheme, _, shown = request.headers.get("Authorization", "").partition(" ")
        known = scheme.lower() == "basic" and compare_digest(shown.strip().encode(), wanted)
        if known or request.path in _OPEN:
            return await handler(request)
        headers = {"WWW-Authenticate": 'Basic realm="slotlog", charset="UTF-8"'}
        return web.Response(status=401, text="a password is needed: user slotlog\n", headers=headers)

    return ask
