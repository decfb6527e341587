"""Writes keys that live for two seconds, for minutes, and checks that their disk space levels off.

    python -m benchmarks.cleaning.soak [--seconds 300] [--rate 20000] [--ttl-ms 2000]

A service of its own, with the embedded log, gets SETs of new keys with a time to live, over RESP, at a steady rate.
Every ten seconds a JSON line says how it stands; the last one compares the second half with the first: a figure levels
off when its highest value then is at most a fifth above the one before.

    state_bytes   of the partition's directory: RocksDB's files and write-ahead logs
    log_bytes     of the embedded log: it grows, as it keeps every event
    rss_bytes     of the service, which is started as a user starts it
    cpu_seconds   that it has taken
    stored_keys   keys with a record: those that live, and those that are due and not cleaned up yet
    behind_keys   of these, the ones that are due: written longer ago than the time to live
    stored_seconds  for how long keys are stored, at the rate of the last ten seconds
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any, Final

from benchmarks.processes import cpu_seconds, rss_bytes, started_by_itself
from tests.real.oracle import request
from tests.wire.servers import RespServer, slotlog

_TURNS_PER_SECOND: Final = 100
_CONNECTIONS: Final = 4
_LINE_SECONDS: Final = 10.0
_VALUE: Final = b"v" * 100
_GROWTH_MAX: Final = 1.2
_LEVELS: Final = ("state_bytes", "rss_bytes", "stored_seconds")


@dataclass(slots=True)
class Written:
    """What was written: in all, and how much stood at which time, for as long as the keys live."""

    ttl_seconds: float
    answered: int = 0
    refused: int = 0
    _steps: deque[tuple[float, int]] = field(default_factory=deque)

    def note(self, now: float) -> None:
        """So much is answered now."""
        self._steps.append((now, self.answered))

    def due(self, now: float) -> int:
        """How many were answered longer ago than they live."""
        while len(self._steps) > 1 and self._steps[1][0] <= now - self.ttl_seconds:
            self._steps.popleft()
        at, answered = self._steps[0]
        return answered if at <= now - self.ttl_seconds else 0


class Client(asyncio.Protocol):
    """Counts the replies of one connection."""

    def __init__(self, written: Written) -> None:
        self._written = written
        self.transport: asyncio.Transport
        self.in_flight = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep it, to write to."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Every line is a reply."""
        replies = data.count(b"\n")
        self._written.answered += replies
        self._written.refused += data.count(b"-")
        self.in_flight -= replies


async def soak(
    seconds: float, rate: int, ttl_ms: int, directory: Path, environment: Mapping[str, str] | None = None
) -> bool:
    """Write, and print how it stands. Returns whether everything levels off."""
    lines = await measured_soak(seconds, rate, ttl_ms, directory, environment or {}, _show)
    found = verdict(lines)
    _show({"soak": "verdict", "rate": round(lines[-1]["written"] / seconds), **found})
    return bool(found["levels_off"])


async def measured_soak(
    seconds: float,
    rate: int,
    ttl_ms: int,
    directory: Path,
    environment: Mapping[str, str],
    show: Callable[[dict[str, Any]], object] = lambda _: None,
) -> list[dict[str, Any]]:
    """Write, and return how it stood every ten seconds, what each `show` is told, too."""
    written = Written(ttl_ms / 1000)
    with slotlog(directory, environment=environment) as server:
        watching = asyncio.create_task(_watch(server, directory / "data", written, seconds, show))
        await _write(server, written, seconds, rate, ttl_ms)
        return await watching


def _show(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


async def _write(server: RespServer, written: Written, seconds: float, rate: int, ttl_ms: int) -> None:
    loop = asyncio.get_running_loop()
    clients = [(await loop.create_connection(lambda: Client(written), *server.address))[1] for _ in range(_CONNECTIONS)]
    began, sent = monotonic(), 0
    ttl = b"%d" % ttl_ms
    while (passed := monotonic() - began) < seconds:
        client = clients[int(passed * _TURNS_PER_SECOND) % len(clients)]
        wanted = min(int(passed * rate) - sent, rate // 10)
        if client.in_flight < rate and wanted > 0:
            commands = [
                request([b"SET", b"soak:%d" % number, _VALUE, b"PX", ttl]) for number in range(sent, sent + wanted)
            ]
            client.transport.write(b"".join(commands))
            client.in_flight += wanted
            sent += wanted
        await asyncio.sleep(1 / _TURNS_PER_SECOND)
        written.note(monotonic())
    for client in clients:
        client.transport.close()


async def _watch(
    server: RespServer, data: Path, written: Written, seconds: float, show: Callable[[dict[str, Any]], object]
) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    began = monotonic()
    while (passed := monotonic() - began) < seconds - 0.5:
        await asyncio.sleep(min(_LINE_SECONDS, seconds - passed))
        now = monotonic()
        due = written.due(now)
        info = await asyncio.to_thread(_info, server)
        expired = int(info["expired_keys"])
        line = {
            "soak_seconds": round(now - began, 1),
            "written": written.answered,
            "refused": written.refused,
            "state_bytes": _bytes_of(data / "0"),
            "log_bytes": _bytes_of(data),
            "rss_bytes": rss_bytes(int(info["process_id"])),
            "cpu_seconds": cpu_seconds(int(info["process_id"])),
            "stored_keys": written.answered - expired,
            "behind_keys": max(0, due - expired),
        }
        last = lines[-1] if lines else {"soak_seconds": 0.0, "written": 0}
        per_second = (line["written"] - last["written"]) / (line["soak_seconds"] - last["soak_seconds"])
        line |= {"per_second": round(per_second), "stored_seconds": round(line["stored_keys"] / max(1, per_second), 2)}
        show(line)
        lines.append(line)
    return lines


def _info(server: RespServer) -> dict[str, str]:
    connection = server.connect()
    try:
        text = connection.call("INFO", "stats").decode() + connection.call("INFO", "server").decode()
    finally:
        connection.close()
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


def _bytes_of(directory: Path) -> int:
    total = 0
    for file in directory.iterdir():
        try:
            total += file.stat().st_size if file.is_file() else 0
        except FileNotFoundError:  # RocksDB has removed it meanwhile
            continue
    return total


def verdict(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """The highest values of the second half by those of the first, of whose beginning a quarter is left out.

    Args:
        lines: what was printed, in order.
    """
    early, late = lines[len(lines) // 8 : len(lines) // 2], lines[len(lines) // 2 :]
    if not early:
        return {"levels_off": False, "reason": "too short to tell: a minute at least"}
    growth = {
        name: round(max(line[name] for line in late) / max(1, *(line[name] for line in early)), 2) for name in _LEVELS
    }
    return {"levels_off": max(growth.values()) <= _GROWTH_MAX and not lines[-1]["refused"], "growth": growth}


def main() -> None:
    """The command line; exit code 1 when something grows on."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cleaning.soak", description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=300.0, help="how long")
    parser.add_argument("--rate", type=int, default=20_000, help="keys written in a second")
    parser.add_argument("--ttl-ms", type=int, default=2000, help="how long each lives")
    options = parser.parse_args()
    with TemporaryDirectory(prefix="slotlog-soak-") as directory:
        levels_off = asyncio.run(
            soak(options.seconds, options.rate, options.ttl_ms, Path(directory), started_by_itself(Path(directory)))
        )
    sys.exit(0 if levels_off else 1)


if __name__ == "__main__":
    main()
