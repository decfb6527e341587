"""Headless Chromium (Debian's), driven over the DevTools protocol: https://chromedevtools.github.io/devtools-protocol/.

What a page writes to its console, throws, and asks the network for is kept, so that a test can say that there was none.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final

from aiohttp import ClientSession, ClientWebSocketResponse, WSMsgType

_PATIENCE_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 0.05
_LOUD: Final = {"error", "warning", "assert"}


class Browser:
    """One tab.

    Attributes:
        complaints: console errors and warnings, exceptions, and what the Content-Security-Policy has refused.
        requests: every URL that the page asked for.
    """

    def __init__(self, socket: ClientWebSocketResponse) -> None:
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self._socket = socket
        self._number = 0
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._listening = asyncio.create_task(self._listen())

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the protocol, and its result."""
        self._number += 1
        answer = self._answers[self._number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": self._number, "method": method, "params": parameters})
        async with asyncio.timeout(_PATIENCE_SECONDS):
            result: dict[str, Any] = await answer
        return result

    async def open(self, url: str, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Show `url` in a window of so many CSS pixels; below 768 it is a phone."""
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 768,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])
        for domain in ("Page", "Runtime", "Log", "Network"):
            await self.call(f"{domain}.enable")
        await self.call("Page.navigate", url=url)

    async def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        result = await self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    async def wait_until(self, expression: str) -> None:
        """Ask again until the expression is true."""
        until = monotonic() + _PATIENCE_SECONDS
        while not await self.evaluate(expression):
            assert monotonic() < until, f"waited for {expression}"
            await asyncio.sleep(_LOOK_SECONDS)

    async def screenshot(self, path: Path) -> None:
        """The whole page as a PNG."""
        answer = await self.call("Page.captureScreenshot", captureBeyondViewport=True)
        await asyncio.to_thread(path.write_bytes, base64.b64decode(answer["data"]))

    async def close(self) -> None:
        """End the browser."""
        with contextlib.suppress(ConnectionError, TimeoutError):
            await self.call("Browser.close")
        self._listening.cancel()
        await self._socket.close()

    async def _listen(self) -> None:
        async for message in self._socket:
            if message.type is not WSMsgType.TEXT:
                continue
            said = json.loads(message.data)
            if "id" in said:
                self._answers.pop(said["id"]).set_result(said.get("result", said))
            else:
                self._note(said["method"], said["params"])

    def _note(self, method: str, params: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(str(params["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in _LOUD:
            self.complaints.append(str(params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in _LOUD:
            self.complaints.append(params["entry"]["text"])


@asynccontextmanager
async def browser(directory: Path) -> AsyncIterator[Browser]:
    """A browser with an empty profile in `directory`, which has to be there."""
    process = _start(directory)
    try:
        port = await asyncio.to_thread(_port, directory / "DevToolsActivePort", process)
        async with ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                tabs = await answer.json()
            address = next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page")
            async with session.ws_connect(address, max_msg_size=0) as socket:
                tab = Browser(socket)
                try:
                    yield tab
                finally:
                    await tab.close()
    finally:
        try:
            await asyncio.to_thread(process.wait, 10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _start(directory: Path) -> subprocess.Popen[bytes]:
    options = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-background-networking",
        "--remote-debugging-port=0",
        f"--user-data-dir={directory}",
    ]
    with (directory / "chromium.log").open("wb") as output:
        return subprocess.Popen(["chromium", *options, "about:blank"], stdout=output, stderr=output)


def _port(file: Path, process: subprocess.Popen[bytes]) -> int:
    """The port of the protocol, which the browser writes into its profile once it listens."""
    until = monotonic() + _PATIENCE_SECONDS
    while not file.exists() or not file.read_text().strip():
        assert process.poll() is None, "chromium ended at its start; see chromium.log"
        assert monotonic() < until, "chromium does not listen"
        sleep(_LOOK_SECONDS)
    return int(file.read_text().split()[0])
