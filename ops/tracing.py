"""Sends OpenTelemetry spans to a collector by OTLP over HTTP, in batches, from a thread.

Where to and how much is said by OpenTelemetry's own variables, such as OTEL_EXPORTER_OTLP_ENDPOINT and
OTEL_TRACES_SAMPLER (opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables).
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, Final

from ops.config import ConfigError, Settings
from ops.version import VERSION

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

    from slotlog.log.tracing import Tracing

_CLOSE_SECONDS: Final = 2.0  # a collector that is away must not keep the process from ending


class Spans:
    """The spans of one process, from its start until `close`.

    Args:
        settings: the topic, whose spans they are.

    Attributes:
        tracing: makes them.

    Raises:
        ConfigError: the packages for it are not installed.
    """

    def __init__(self, settings: Settings) -> None:
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 - extra
            from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
            from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
            from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

            from slotlog.log.tracing import Tracing  # noqa: PLC0415
        except ImportError as error:
            raise ConfigError("tracing needs packages that are not there: pip install 'slotlog[tracing]'") from error
        name = os.environ.get("OTEL_SERVICE_NAME", "slotlog")
        resource = Resource.create({"service.name": name, "service.version": VERSION})
        self._provider: TracerProvider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self.tracing: Tracing = Tracing(settings.topic, self._provider)

    async def close(self) -> None:
        """Send what is left, for a moment."""
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        def end() -> None:
            self._provider.shutdown()
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(done.set)

        # Not in the loop's executor: whoever closes the loop waits for its threads, until the exporter gives up.
        Thread(target=end, daemon=True).start()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await done.wait()
