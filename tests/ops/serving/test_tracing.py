"""Spans: from a producer through Kafka's headers to what applies its events, and out to a collector."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from uuid import uuid4

import pytest
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, Sampler

from engine.store.memory import MemoryStore
from ingest.applying.batches.worker import Worker
from ingest.applying.consumer import Consumer
from ingest.reporting.observer import NullObserver
from ops.config import ConfigError, Settings
from ops.tracing import Spans
from slotlog.log import open_log
from slotlog.log.tracing import Tracing
from slotlog.producer import Producer
from tests.faults.service import ServiceProcess
from tests.layouts import column_families, home_of
from tests.ops.verbs import succeed, wait_for_offset, write_lines

CANARY = "canary-5f1c"


def memory(sampler: Sampler | None = None) -> tuple[TracerProvider, InMemorySpanExporter]:
    """A provider that keeps its spans, and where."""
    provider, kept = TracerProvider(sampler=sampler), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    return provider, kept


async def send_and_apply(bootstrap: str, sending: TracerProvider, applying: TracerProvider) -> None:
    """Three events from inside a span `order` through Kafka into a store."""
    topic = f"traced-{uuid4().hex}"
    log = open_log(f"kafka://{bootstrap}", topic=topic, partitions=1)
    await log.start()
    store = MemoryStore(column_families())
    worker = Worker(home_of(topic, 0, 1), log, lambda _: store, None, NullObserver(), tracing=Tracing(topic, applying))
    consumer = Consumer(log, {0: worker}, NullObserver())
    try:
        with trace.get_tracer("shop", tracer_provider=sending).start_as_current_span("order"):
            async with Producer(log, Tracing(topic, sending)) as producer:
                for number in range(3):
                    await producer.send("SET", f"{CANARY}:{number}", CANARY)
        await consumer.open()
        await consumer.run_to({0: 3})
    finally:
        consumer.close()
        await log.close()


def named(kept: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    """The spans whose name begins so."""
    return [span for span in kept.get_finished_spans() if span.name.startswith(name)]


async def test_what_is_applied_belongs_to_the_trace_of_its_sender(kafka_bootstrap: str) -> None:
    """Each event's span is the child of the sender's, its applying the child of that, linked with its batch."""
    (sending, sent), (applying, applied) = memory(), memory()
    await send_and_apply(kafka_bootstrap, sending, applying)
    (order,) = named(sent, "order")
    sends = {span.context.span_id: span for span in named(sent, "send ")}
    applies = named(applied, "apply ")
    batches = {span.context.span_id: span for span in named(applied, "process ")}
    assert 3 == len(sends) == len(applies)
    assert {order.context.span_id} == {span.parent.span_id for span in sends.values() if span.parent}
    assert set(sends) == {span.parent.span_id for span in applies if span.parent}
    assert {order.context.trace_id} == {span.context.trace_id for span in applies}
    assert {0, 1, 2} == {(span.attributes or {})["kafka.offset"] for span in applies}
    assert set(batches) == {link.context.span_id for span in applies for link in span.links}
    assert set(sends) == {link.context.span_id for batch in batches.values() for link in batch.links}


async def test_a_sender_that_is_not_sampled_makes_no_spans_of_what_is_applied(kafka_bootstrap: str) -> None:
    """The sender decides: its batch has no links, and none of its events a span."""
    (sending, _), (applying, applied) = memory(ALWAYS_OFF), memory()
    await send_and_apply(kafka_bootstrap, sending, applying)
    assert [] == named(applied, "apply ")
    assert [] == [link for batch in named(applied, "process ") for link in batch.links]


async def test_a_failed_send_is_an_error_in_its_span(tmp_path: Path) -> None:
    """Which says the kind of error, and nothing of its text."""
    provider, kept = memory()
    log = open_log(f"sqlite:///{tmp_path}/log", topic="t", partitions=1)
    await log.start()
    await log.close()
    producer = Producer(log, Tracing("t", provider))
    done = await producer.send("SET", "k", "v")
    with pytest.raises(Exception) as failure:  # noqa: PT011 - which one is the log's matter
        await done
    with pytest.raises(type(failure.value)):
        await producer.close()
    (span,) = named(kept, "send ")
    assert not span.status.is_ok
    assert type(failure.value).__name__ == span.status.description


@contextmanager
def collector() -> Iterator[tuple[str, list[bytes]]]:
    """An OTLP collector: its address, and the bodies that it was sent."""
    bodies: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", bodies
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def parsed(bodies: list[bytes]) -> list[Span]:
    """All spans that a collector has got."""
    requests = [ExportTraceServiceRequest.FromString(body) for body in bodies]
    return [
        span
        for request in requests
        for of in request.resource_spans
        for scope in of.scope_spans
        for span in scope.spans
    ]


def test_the_verbs_send_their_spans_to_the_collector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`produce` and `serve` with tracing on: a span of the append, one of each batch, and no key or value in any."""
    with collector() as (address, bodies):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        monkeypatch.setenv("SLOTLOG_TRACING", "true")
        events = write_lines(tmp_path / "events", [{"cmd": "SET", "args": [f"{CANARY}:{n}", CANARY]} for n in range(5)])
        succeed("produce", events, "--data", tmp_path / "data")
        sent = len(parsed(bodies))
        with ServiceProcess(["--data", f"{tmp_path}/data", "--http", "127.0.0.1:0", "--resp", ""]) as service:
            service.wait_for("started")
            wait_for_offset(service, 5)
            assert 0 == service.terminate()
    spans = parsed(bodies)
    assert ["send slotlog"] * sent == [span.name for span in spans[:sent]]
    assert "process slotlog" in {span.name for span in spans[sent:]}
    assert CANARY.encode() not in b"".join(bodies)


@pytest.fixture(params=["refuses", "hangs"])
def no_collector(request: pytest.FixtureRequest) -> Iterator[str]:
    """An address where nobody takes spans: connections are refused, or accepted and never answered."""
    if request.param == "refuses":
        yield "http://127.0.0.1:1"
        return
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_a_collector_that_is_away_holds_up_no_end(
    no_collector: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With spans that nobody takes the verb ends, and the service.

    Each in a process of its own: the exporter's thread goes on trying, and logs, until its process ends.
    """
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", no_collector)
    monkeypatch.setenv("SLOTLOG_TRACING", "true")
    events = write_lines(tmp_path / "e", [{"cmd": "SET", "args": ["k", "v"]}])
    produce = [sys.executable, "-m", "ops.cli", "produce", str(events), "--data", str(tmp_path / "data")]
    subprocess.run(produce, capture_output=True, check=True)
    with ServiceProcess(["--data", f"{tmp_path}/data", "--http", "127.0.0.1:0", "--resp", ""]) as service:
        service.wait_for("started")
        wait_for_offset(service, 1)
        assert 0 == service.terminate()


def test_without_tracing_nothing_of_it_is_imported() -> None:
    """Off is the default, and costs nothing."""
    loaded = "[name for name in sys.modules if name.startswith('opentelemetry')]"
    code = f"import sys, ops.serving.service, ops.sending.produce; print({loaded})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "[]" == done.stdout.strip()


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who turns it on without the packages is told what to install."""
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(ConfigError, match=r"slotlog\[tracing\]"):
        Spans(Settings(tracing=True))
