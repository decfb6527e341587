"""A broken connection, a dead producer, a silent broker: appends end honestly, and the next producer goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
import uvloop
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import (
    KafkaConnectionError,
    KafkaError,
    MessageSizeTooLargeError,
    TopicAuthorizationFailedError,
)
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.protocol.produce import ProduceRequest

from slotlog.errors import AppendUncertainError, LogUnavailableError, RecordTooLargeError
from slotlog.log.kafka.appender import KafkaAppender
from slotlog.log.kafka.kafka_log import KafkaLog
from slotlog.log.kafka.settings import KafkaSettings
from slotlog.log.log import LogRecord
from tests.real.broker import KafkaBroker
from tests.slotlog.fixtures import MakeKafkaLog
from tests.slotlog.log.reading import append, read


def break_connections(*clients: Any) -> None:
    """Let the next write of every connection fail as uvloop's do to transports that were closed a moment ago."""

    def write(_: bytes) -> None:
        raise RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed")

    for client in clients:
        for connection in client._conns.values():
            connection._writer.write = write


def producer_of(log: KafkaLog) -> Any:
    """The aiokafka producer that the log appends with."""
    line = log._appender._line
    assert line is not None
    return line.producer


# ------------------------------------------------------------------ connections that end while they are written to


def test_write_to_a_closed_transport(kafka_bootstrap: str, topic: str) -> None:
    """The RuntimeError of uvloop for a transport that was closed a moment ago is the end of the connection alone."""

    async def run() -> None:
        log = KafkaLog(kafka_bootstrap, topic=topic, partitions=1)
        await log.start()
        await append(log, b"a")
        (connection,) = producer_of(log).client._conns.values()
        connection._writer.transport.abort()
        await asyncio.sleep(0)  # now the transport is closed, and in the loop's next turn the connection hears of it
        with pytest.raises(KafkaConnectionError, match="the handler is closed"):
            connection.send(MetadataRequest([]))
        assert not connection.connected()
        await log.close()

    uvloop.run(run())


async def test_append_over_a_broken_connection(make_log: MakeKafkaLog) -> None:
    """An append whose connection ends at that moment is sent again over the next one, and acknowledged."""
    log = make_log()
    await log.start()
    await append(log, b"a")
    producer = producer_of(log)
    break_connections(producer.client)
    await append(log, b"b")

    assert producer_of(log) is producer
    assert [b"a", b"b"] == [record[3] for record in (await read(log.reader({0: 0}), 2))[0]]


async def test_questions_over_broken_connections(make_log: MakeKafkaLog) -> None:
    """A question, a fetch and a commit whose connections end at that moment: the log is away once at most."""
    log = make_log()
    await log.start()
    await append(log, b"a")
    reader = log.reader({0: 0})
    await read(reader, 1)
    await log.commit({0: 1})
    await log.end_offset(0)
    assert log._lookup is not None
    assert log._committer is not None
    assert reader._consumer is not None
    assert log._topics._client is not None
    break_connections(
        log._lookup._client, log._committer._client, reader._consumer._client, log._topics._client._client
    )
    await log.commit({0: 1})
    for question in (lambda: log.end_offset(0), lambda: log.check(0, 1, None), lambda: append(log, b"b")):
        await twice(question)
    fetched: dict[int, list[LogRecord]] = {}
    while not fetched:
        fetched = await twice(lambda: reader.fetch(500, 10))

    assert [b"b"] == [record[3] for record in fetched[0]]


async def twice(question: Callable[[], Awaitable[Any]]) -> Any:
    """The answer, or that to asking once more."""
    try:
        return await question()
    except LogUnavailableError:
        return await question()


# ------------------------------------------------------------------ refusals


def answer_produce(monkeypatch: pytest.MonkeyPatch, *answers: KafkaError) -> None:
    """Let the next produce requests be answered so, one after the other; KafkaConnectionError: taken, unanswered."""
    coming = list(answers)
    send = AIOKafkaClient.send

    async def sent(client: AIOKafkaClient, node: int, request: Any, **options: Any) -> Any:
        if not isinstance(request, ProduceRequest) or not coming:
            return await send(client, node, request, **options)
        answer = coming.pop(0)
        if isinstance(answer, KafkaConnectionError):
            await send(client, node, request, **options)
        raise answer

    monkeypatch.setattr(AIOKafkaClient, "send", sent)


@pytest.mark.parametrize("refusal", [TopicAuthorizationFailedError("t"), MessageSizeTooLargeError()], ids=repr)
async def test_refusal_of_the_second_try(
    make_log: MakeKafkaLog, monkeypatch: pytest.MonkeyPatch, refusal: KafkaError
) -> None:
    """A batch that is refused when it is sent again may be in the log since it was sent first: it is uncertain."""
    log = make_log()
    await log.start()
    await append(log, b"a")
    answer_produce(monkeypatch, KafkaConnectionError("the answer is lost"), refusal)
    with pytest.raises(AppendUncertainError, match=type(refusal).__name__):
        await append(log, b"b")

    assert [b"a", b"b"] == [record[3] for record in (await read(log.reader({0: 0}), 2))[0]]


@pytest.mark.parametrize(
    ("refusal", "raised"),
    [
        (TopicAuthorizationFailedError("t"), LogUnavailableError),
        (MessageSizeTooLargeError(), RecordTooLargeError),
        (KafkaError("whatever"), AppendUncertainError),
    ],
    ids=repr,
)
async def test_refusal_of_the_first_try(
    make_log: MakeKafkaLog, monkeypatch: pytest.MonkeyPatch, refusal: KafkaError, raised: type[Exception]
) -> None:
    """A batch that is refused when it is sent first is not in the log, if the refusal is one that says so."""
    log = make_log()
    await log.start()
    await append(log, b"a")
    answer_produce(monkeypatch, refusal)
    with pytest.raises(raised) as caught:
        await append(log, b"b")

    assert raised is type(caught.value)


# ------------------------------------------------------------------ what an acknowledgement means


async def test_an_acknowledgement_is_that_of_all_replicas(
    make_log: MakeKafkaLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every request to append asks for the word of all in-sync replicas, which a leader alone cannot give."""
    wanted: list[int] = []
    send = AIOKafkaClient.send

    async def sent(client: AIOKafkaClient, node: int, request: Any, **options: Any) -> Any:
        if isinstance(request, ProduceRequest):
            wanted.append(request.required_acks)
        return await send(client, node, request, **options)

    monkeypatch.setattr(AIOKafkaClient, "send", sent)
    log = make_log()
    await log.start()
    await append(log, b"a")
    await append(log, b"b")

    assert [-1, -1] == wanted


async def test_an_append_that_is_sent_twice_is_in_the_log_once(
    make_log: MakeKafkaLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch whose answer is lost is sent again, and the broker knows it for the same one."""
    log = make_log()
    await log.start()
    await append(log, b"a")
    for value in (b"b", b"c"):
        answer_produce(monkeypatch, KafkaConnectionError("the answer is lost"))
        await append(log, value)

    assert await log.end_offset(0) == 3
    assert [b"a", b"b", b"c"] == [record[3] for record in (await read(log.reader({0: 0}), 3))[0]]


# ------------------------------------------------------------------ producers that are of no use any more


@pytest.mark.parametrize("task_of", [lambda it: it.client._sync_task, lambda it: it._sender.sender_task])
async def test_dead_task_of_a_producer(make_log: MakeKafkaLog, task_of: Callable[[Any], asyncio.Task[None]]) -> None:
    """A producer whose sender or whose metadata has ended would be waited for until the time-out: it is not used."""
    log = make_log()
    await log.start()
    await append(log, b"a")
    producer = producer_of(log)
    task_of(producer).cancel()
    await asyncio.wait((task_of(producer),))
    await append(log, b"b")

    assert producer_of(log) is not producer


async def test_closed_while_a_producer_starts(make_log: MakeKafkaLog) -> None:
    """An append that is under way when the log is closed appends nothing, says so, and leaves no producer behind."""
    log = make_log()
    await log.start()
    tasks = asyncio.all_tasks()
    appending = asyncio.create_task(append(log, b"a"))
    await asyncio.sleep(0)
    await log.close()
    for refused in (appending, append(log, b"b")):
        with pytest.raises(LogUnavailableError, match="is closed"):
            await refused

    assert log._appender._line is None
    assert asyncio.all_tasks() <= tasks
    assert await make_log().end_offset(0) == 0


async def test_dead_sender_that_nobody_waits_for(make_log: MakeKafkaLog) -> None:
    """A producer whose sender has died refuses one append, in which nothing was written; the next has a new one."""
    log = make_log()
    await log.start()
    await append(log, b"a")
    producer = producer_of(log)
    producer._message_accumulator.fail_all(KafkaError("Unexpected error during batch delivery"))

    with pytest.raises(LogUnavailableError):
        await append(log, b"b")
    await append(log, b"c")

    assert producer_of(log) is not producer
    assert [b"a", b"c"] == [record[3] for record in (await read(log.reader({0: 0}), 2))[0]]


async def test_failed_batch_that_nobody_waits_for(make_log: MakeKafkaLog) -> None:
    """A batch that fails after its append has given up leaves a hole in the sequence: the producer is replaced."""
    log = make_log()
    await log.start()
    await append(log, b"a")
    line = log._appender._line
    assert line is not None
    orphan: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    log._appender._keep(line, orphan, 1)
    orphan.set_exception(KafkaError("out of order"))
    await asyncio.sleep(0)
    await append(log, b"b")

    assert producer_of(log) is not line.producer


async def test_failures_replace_a_producer_once(make_log: MakeKafkaLog) -> None:
    """Many batches of one producer that fail do not take away the next producer as well."""
    log = make_log()
    await log.start()
    await append(log, b"a")
    line = log._appender._line
    log._appender._retire(line)
    await append(log, b"b")
    following = producer_of(log)
    log._appender._retire(line)
    await append(log, b"c")

    assert producer_of(log) is following


# ------------------------------------------------------------------ a broker that does not answer


@pytest.fixture(scope="module")
def pausing_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker that is paused for one test after the other; each has a topic of its own."""
    with KafkaBroker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture
async def frozen(pausing_broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[KafkaLog]:
    """A log, appended to before, on a broker that has stopped answering; it answers again in the end."""
    monkeypatch.setattr("slotlog.log.kafka.appender._FLUSH_SECONDS", 0.2)
    monkeypatch.setattr("slotlog.log.kafka.appender._CLOSE_SECONDS", 0.2)
    settings = KafkaSettings(request_timeout_ms=1000)
    log = KafkaLog(pausing_broker.bootstrap, topic=f"t-{uuid4().hex}", partitions=1, settings=settings)
    await patiently(log.start)  # the broker was paused a moment before, for another test
    await patiently(partial(append, log, b"before"))
    pausing_broker.pause()
    yield log
    pausing_broker.resume()
    await log.close()


async def test_silent_broker(frozen: KafkaLog, pausing_broker: KafkaBroker) -> None:
    """An append that took too long is uncertain, those after it were not written; with the broker back, all is well."""
    appender: KafkaAppender = frozen._appender
    given_up = appender._line
    assert given_up is not None
    with pytest.raises(AppendUncertainError, match="within 1 s"):
        await append(frozen, b"uncertain")
    with pytest.raises(LogUnavailableError):
        await append(frozen, b"refused")
    await asyncio.wait_for(asyncio.gather(*appender._retiring), 60)
    pausing_broker.resume()
    await patiently(partial(append, frozen, b"after"))

    assert given_up.pending == {}


async def patiently(call: Callable[[], Awaitable[object]]) -> None:
    """Until it works: a machine that does much else may take longer for it than the log waits."""
    async with asyncio.timeout(60):
        while True:
            try:
                await call()
            except (LogUnavailableError, AppendUncertainError):
                continue
            return


async def test_given_up_producer_leaves_nothing(frozen: KafkaLog) -> None:
    """No task of a producer outlives its end, though the broker has answered nothing; nor does one wait for it."""
    tasks = asyncio.all_tasks()
    with pytest.raises(AppendUncertainError, match="within 1 s"):
        await append(frozen, b"uncertain")
    await asyncio.wait_for(asyncio.gather(*frozen._appender._retiring), 60)

    assert asyncio.all_tasks() <= tasks


async def test_waiting_appends_are_told_when_their_producer_ends(frozen: KafkaLog) -> None:
    """An append in a producer that is given up does not wait for its own time to pass: it is uncertain at once."""
    appender: KafkaAppender = frozen._appender
    appender._seconds = 60
    line = appender._line
    assert line is not None
    waiting = asyncio.create_task(append(frozen, b"uncertain"))
    async with asyncio.timeout(60):
        while not line.pending:  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.01)
    appender._retire(line)

    with pytest.raises(AppendUncertainError, match="before the producer was replaced"):
        await asyncio.wait_for(waiting, 30)


async def test_no_more_is_taken_than_may_be_pending(frozen: KafkaLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """With too many bytes on their way nothing more is handed over: an append that waited for room was not written."""
    monkeypatch.setattr("slotlog.log.kafka.appender._PENDING_BYTES_MAX", 1000)
    line = frozen._appender._line
    assert line is not None
    appends = [asyncio.create_task(append(frozen, bytes(2000)))]
    async with asyncio.timeout(60):
        while not line.pending:  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.01)
    appends += [asyncio.create_task(append(frozen, b"x")) for _ in range(2)]
    outcomes = await asyncio.gather(*appends, return_exceptions=True)

    assert [AppendUncertainError, LogUnavailableError, LogUnavailableError] == [type(each) for each in outcomes]
