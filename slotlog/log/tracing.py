"""OpenTelemetry spans from a producer to the worker, linked through W3C `traceparent` in Kafka headers.

    send     one span per event sent, child of the sender's current span; its context goes into the record's headers
    process  one span per applied batch, with a link to the span of every traced record in it
    apply    one span per traced record, child of its sender's span and linked to its batch

Names and attributes are those of the semantic conventions for messaging (opentelemetry.io/docs/specs/semconv).
The embedded log keeps no headers, so there are batches without links there. Imported only where tracing is on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, StatusCode, TracerProvider
from opentelemetry.util.types import AttributeValue

from slotlog.clock import now_ns
from slotlog.log.log import Entry, Headers, HeadersOf, LogRecord

_LINKS_MAX: Final = 128  # as many as the SDK keeps of one span unless told otherwise
_NS: Final = 1_000_000_000


class Tracing:
    """The spans of one topic.

    Args:
        topic: name of the log.
        provider: where spans go; None: the process' own, as OpenTelemetry keeps it.
    """

    def __init__(self, topic: str, provider: TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("slotlog", tracer_provider=provider)
        self._topic = topic

    def send(self, entries: Sequence[Entry], done: asyncio.Future[Any], cmd: str | bytes = "") -> list[Entry]:
        """Entries with the context of their span, which ends with `done`.

        Args:
            entries: of one event, or of several that go out together.
            done: gets a result once they are durable, or the error.
            cmd: the event's command.
        """
        attributes = self._attributes("send") | {"messaging.batch.message_count": len(entries)}
        if cmd:
            name = cmd if isinstance(cmd, str) else cmd.decode("latin-1")
            attributes["slotlog.command"] = name.upper()
        span = self._tracer.start_span(f"send {self._topic}", kind=SpanKind.PRODUCER, attributes=attributes)
        carried: dict[str, str] = {}
        propagate.inject(carried, context=trace.set_span_in_context(span))
        headers = tuple((key, text.encode()) for key, text in carried.items())
        done.add_done_callback(partial(_end, span))
        return [entry._replace(headers=entry.headers + headers) for entry in entries]

    def applied(self, partition: int, records: Sequence[LogRecord], headers_of: HeadersOf, seconds: float) -> None:
        """A batch was committed just now, and took `seconds`."""
        end_ns = now_ns()
        start_ns = end_ns - int(seconds * _NS)
        contexts = [(record[0], _context(headers_of(record[0]))) for record in records]
        senders = [(offset, context) for offset, context in contexts if context is not None]
        where = self._attributes("process") | {"messaging.destination.partition.id": str(partition)}
        links = [Link(trace.get_current_span(context).get_span_context()) for _, context in senders[:_LINKS_MAX]]
        batch = self._tracer.start_span(
            f"process {self._topic}",
            context=Context(),  # a batch belongs to no trace but its own
            kind=SpanKind.CONSUMER,
            attributes=where | {"messaging.batch.message_count": len(records)},
            links=links,
            start_time=start_ns,
        )
        link = Link(batch.get_span_context())
        for offset, context in senders:
            self._tracer.start_span(
                f"apply {self._topic}",
                context=context,
                kind=SpanKind.CONSUMER,
                attributes=where | {"kafka.offset": offset},
                links=[link],
                start_time=start_ns,
            ).end(end_ns)
        batch.end(end_ns)

    def _attributes(self, operation: str) -> dict[str, AttributeValue]:
        return {
            "messaging.system": "kafka",
            "messaging.operation.type": operation,
            "messaging.operation.name": operation,
            "messaging.destination.name": self._topic,
        }


def _end(span: Span, done: asyncio.Future[Any]) -> None:
    """The event of this span is durable, or has failed."""
    error = None if done.cancelled() else done.exception()
    if error is not None:
        span.set_status(StatusCode.ERROR, type(error).__name__)  # its text may name hosts or keys
    span.end()


def _context(headers: Headers) -> Context | None:
    """Where a record comes from; None when it says nothing that can be used, or was not sampled."""
    if not any(name == "traceparent" for name, _ in headers):
        return None
    carried = {name: (value or b"").decode("latin-1") for name, value in headers}
    context = propagate.extract(carried, context=Context())
    return context if trace.get_current_span(context).get_span_context().trace_flags.sampled else None
