"""`slotlog load`."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ops.cli.options import Json, print_json, reports_errors
from ops.config import load_settings

if TYPE_CHECKING:
    from ops.sending.load import Generator, Traffic

_MILLISECONDS: Final = 1000


@reports_errors
def load(
    *,
    resp: Annotated[
        str | None,
        typer.Option(help="Address of the service, or of one of its workers.", show_default="127.0.0.1:6379"),
    ] = None,
    rate: Annotated[float, typer.Option(min=1, help="Commands a second.")] = 500,
    seconds: Annotated[float, typer.Option(min=0, help="How long; 0: until SIGTERM or Ctrl-C.")] = 60,
    clients: Annotated[int, typer.Option(min=1, max=1000, help="Connections to each worker.")] = 8,
    keys: Annotated[int, typer.Option(min=1, help="Keys of each type, at most.")] = 10_000,
    json: Json = False,
) -> None:
    """Send reads and writes of all kinds to a running service, to see its dashboards live. It is no benchmark.

    It waits until the service answers, and connects again when the connection is lost. It writes keys such as string:0
    and hash:1: do not use it on a service that has keys of these names. The exit code is 1 if nothing was answered.

    Example: slotlog load --rate 500 --seconds 60
    """
    from ops.logging import configure_logging
    from ops.sending.load import Generator

    settings = load_settings(resp=resp)
    configure_logging(settings.log_level)
    password = settings.redis.password.get_secret_value()
    generator = Generator(settings.resp, rate=rate, clients=clients, keys=keys, password=password)
    asyncio.run(_run(generator, rate, seconds))
    traffic = generator.traffic
    if json:
        print_json(_facts(traffic))
    else:
        _print(traffic)
    if not traffic.answered:
        raise typer.Exit(1)


async def _run(generator: Generator, rate: float, seconds: float) -> None:
    from ops.progress import progress

    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    with progress("load", round(rate * seconds) or None, "commands") as advance:
        await generator.run(stop, seconds, advance)


def _facts(traffic: Traffic) -> dict[str, Any]:
    return {
        "sent": traffic.sent,
        "answered": traffic.answered,
        "seconds": round(traffic.seconds, 3),
        "per_second": round(traffic.answered / max(traffic.seconds, 0.001)),
        "latency_ms": {f"p{n}": round(traffic.latency_seconds(n / 100) * _MILLISECONDS, 3) for n in (50, 99)},
        "errors": dict(traffic.errors.most_common()),
        **({"error": traffic.failure, "kind": "ConnectionError"} if traffic.failure else {}),
    }


def _print(traffic: Traffic) -> None:
    facts = _facts(traffic)
    print(f"{facts['answered']:,} of {facts['sent']:,} commands answered in {facts['seconds']:.1f} s")
    print(f"{facts['per_second']:,} a second; a pipeline took {facts['latency_ms']['p50']} ms, the slowest", end=" ")
    print(f"hundredth {facts['latency_ms']['p99']} ms or more")
    for code, count in facts["errors"].items():
        print(f"{count:,} answered {code}")
    if traffic.failure:
        print(f"slotlog: {traffic.failure}", file=sys.stderr)
