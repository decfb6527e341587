"""`/metrics`, `/livez` and `/readyz` on one address, loopback unless told otherwise; no keys or values in any."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from aiohttp import web

from ops.config import parse_address
from ops.health import PartitionHealth


class HttpServer:
    """The service's HTTP face.

    Args:
        exposition: gives what `/metrics` answers.
        health: gives every owned partition's health.
    """

    def __init__(self, exposition: Callable[[], bytes], health: Callable[[], list[PartitionHealth]]) -> None:
        self._exposition = exposition
        self._health = health
        self._runner: web.AppRunner | None = None
        self.port = 0

    async def start(self, address: str) -> None:
        """Listen on HOST:PORT; `port` then says which (0 asks for a free one). OSError when it is taken."""
        host, port = parse_address(address)
        app = web.Application()
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/livez", self._livez)
        app.router.add_get("/readyz", self._readyz)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port).start()
        addresses: list[Any] = self._runner.addresses
        self.port = int(addresses[0][1])

    async def close(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _metrics(self, _request: web.Request) -> web.Response:
        return web.Response(
            body=self._exposition(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        )

    async def _livez(self, _request: web.Request) -> web.Response:
        return web.json_response({"live": True})

    async def _readyz(self, _request: web.Request) -> web.Response:
        partitions = self._health()
        ready = all(partition.ready for partition in partitions)
        body = {"ready": ready, "partitions": [asdict(partition) for partition in partitions]}
        return web.json_response(body, status=200 if ready else 503)
