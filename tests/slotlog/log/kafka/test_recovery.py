"""Whatever becomes of aiokafka's clients: the log is unavailable for a while at most, and then goes on by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.client import AIOKafkaClient
from aiokafka.cluster import ClusterMetadata
from aiokafka.errors import KafkaConnectionError, TopicAuthorizationFailedError, UnknownTopicOrPartitionError
from aiokafka.protocol.fetch import FetchRequest

from ingest.dead_letters.dead_letter import DeadLetter
from ingest.dead_letters.kafka_store import KafkaDeadLetters
from slotlog.errors import LogUnavailableError
from slotlog.log import Entry, KafkaSettings
from slotlog.log.kafka.clients import told
from slotlog.log.kafka.kafka_log import KafkaLog
from slotlog.log.kafka.requests import _MetadataRequest
from tests.real.broker import KafkaBroker
from tests.slotlog.fixtures import MakeKafkaLog
from tests.slotlog.log.reading import append, read

FOREVER = 1e9


async def committed(bootstrap: str, log: KafkaLog) -> int | None:
    """What lag tools see of partition 0."""
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=log.settings.group) as consumer:
        offset: int | None = await consumer.committed(TopicPartition(log.topic, 0))
        return offset


async def ask_topic(log: KafkaLog) -> None:
    """Over the admin client."""
    await log.start()


async def ask_offset(log: KafkaLog) -> None:
    """Over the consumer that looks things up."""
    await log.end_offset(0)


# ------------------------------------------------------------------ clients that fail in ways of their own


class Clients:
    """All clients that have sent anything; those that are broken raise from then on, new ones do not."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._seen: WeakSet[AIOKafkaClient] = WeakSet()
        self._broken: dict[int, Exception] = {}
        self._of_requests: type = object
        send = AIOKafkaClient.send

        async def sent(client: AIOKafkaClient, node: int, request: Any, **options: Any) -> Any:
            self._seen.add(client)
            error = self._broken.get(id(client))
            if error is not None and isinstance(request, self._of_requests):
                raise error
            return await send(client, node, request, **options)

        monkeypatch.setattr(AIOKafkaClient, "send", sent)

    def break_all(self, error: Exception, of_requests: type = object) -> None:
        """Let all that have sent anything raise `error` for ever, when they are to send such requests."""
        self._broken = {id(client): error for client in self._seen}
        self._kept = list(self._seen)  # or an id could come again
        self._of_requests = of_requests


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> Clients:
    """The clients of this test."""
    return Clients(monkeypatch)


@pytest.mark.parametrize("error", [KeyError((1, 0)), AssertionError("bootstrap?"), AttributeError("nodeId")], ids=repr)
@pytest.mark.parametrize("ask", [ask_topic, ask_offset])
async def test_no_question_is_put_to_a_failed_client_again(
    make_log: MakeKafkaLog, clients: Clients, ask: Callable[[KafkaLog], Awaitable[None]], error: Exception
) -> None:
    """A client that fails with an error that is none of Kafka's: unavailable once; the next question has another."""
    log = make_log()
    await log.start()
    await ask(log)
    clients.break_all(error)

    with pytest.raises(LogUnavailableError, match=f"cannot be asked: {type(error).__name__}"):
        await ask(log)
    await ask(log)


async def test_commit_outlives_its_client(make_log: MakeKafkaLog, clients: Clients, kafka_bootstrap: str) -> None:
    """A commit that fails in any way is no error, and the next one goes over another client."""
    log = make_log(group="outlived")
    await log.start()
    await log.commit({0: 0})
    clients.break_all(AssertionError("bootstrap?"))

    await log.commit({0: 1})
    await log.commit({0: 2})

    assert await committed(kafka_bootstrap, log) == 2


async def test_dead_letters_outlive_their_clients(make_log: MakeKafkaLog, clients: Clients) -> None:
    """Dead letters are unavailable when a client fails in any way, and can be read over another one then."""
    log = make_log()
    letters = KafkaDeadLetters(log)
    await letters.start()
    letter = DeadLetter(log.topic, 0, 7, 1, "why", b"k", b"v", ())
    await letters.store([letter])
    assert await letters.read() == [letter]
    clients.break_all(KeyError((1, 0)))

    with pytest.raises(LogUnavailableError):
        await letters.read()
    assert await letters.read() == [letter]
    await letters.close()


async def test_reader_outlives_a_failed_verification(make_log: MakeKafkaLog, clients: Clients) -> None:
    """What cannot be verified for any reason is not given, but unavailable; another consumer gives it then."""
    log = make_log()
    await log.start()
    await append(log, b"a")
    reader = log.reader({0: 0})
    await read(reader, 1)
    await append(log, b"b")
    clients.break_all(KeyError((1, 1)), _MetadataRequest)

    with pytest.raises(LogUnavailableError, match="failed: KeyError"):
        await read(reader, 1)
    assert [b"b"] == [record[3] for record in (await read(reader, 1))[0]]


async def test_reader_outlives_its_fetching(
    make_log: MakeKafkaLog, clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A consumer whose fetching task has died says nothing: it is replaced at once, not after a long silence."""
    monkeypatch.setattr("slotlog.log.kafka.reader._PROBE_SECONDS", FOREVER)
    log = make_log()
    await log.start()
    await append(log, b"a")
    reader = log.reader({0: 0})
    await read(reader, 1)
    assert reader._consumer is not None
    clients.break_all(KeyError((1, 0)), FetchRequest)
    await asyncio.wait((reader._consumer._fetcher.error_future,))
    await append(log, b"b")

    with pytest.raises(LogUnavailableError, match="ended by itself"):
        await read(reader, 1)
    assert [b"b"] == [record[3] for record in (await read(reader, 1))[0]]


async def test_reader_outlives_a_failed_probe(
    make_log: MakeKafkaLog, clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A silent consumer that cannot be asked why, for any reason, is unavailable, and then another one."""
    log = make_log()
    await log.start()
    reader = log.reader({0: 0})
    await reader.fetch(10, 1)
    monkeypatch.setattr("slotlog.log.kafka.reader._PROBE_SECONDS", 0.0)
    monkeypatch.setattr("slotlog.log.kafka.reader.is_dead", lambda _: False)
    await reader.fetch(10, 1)
    clients.break_all(KeyError((1, 0)))

    with pytest.raises(LogUnavailableError, match="does not answer: KeyError"):
        await reader.fetch(10, 1)
    await append(log, b"a")
    assert [b"a"] == [record[3] for record in (await read(reader, 1))[0]]


async def test_lookup_outlives_its_metadata(make_log: MakeKafkaLog) -> None:
    """A client whose metadata is updated by nobody would be waited for until the time-out: it is not asked at all."""
    log = make_log()
    await log.start()
    await log.end_offset(0)
    assert log._lookup is not None
    client = log._lookup._client
    client._sync_task.cancel()
    await asyncio.wait((client._sync_task,))
    client.force_metadata_update()

    async with asyncio.timeout(60):
        assert await log.end_offset(0) == 0


async def test_settings_that_cannot_be_read_now(make_log: MakeKafkaLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A passing error in the answer, not raised, is no mismatch, which would stop the partition: it is asked again."""
    log = make_log()
    await log.start()
    answer = await log._topics._ask(lambda client: client.describe_configs([]))
    with monkeypatch.context() as patched:

        async def unknown(*_: object) -> list[Any]:
            passing = type("Answer", (), {"resources": [(UnknownTopicOrPartitionError.errno, None, 2, log.topic, [])]})
            return [passing()]

        patched.setattr("aiokafka.admin.AIOKafkaAdminClient.describe_configs", unknown)
        with pytest.raises(LogUnavailableError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            await log.check(0, 0, None)
    assert answer == []
    await log.check(0, 0, None)


# ------------------------------------------------------------------ a cluster that is only just there


@contextmanager
def metadata(change: Callable[[ClusterMetadata, Any], None]) -> Iterator[None]:
    """Change what brokers say of the cluster."""
    with pytest.MonkeyPatch.context() as patched:
        update = ClusterMetadata.update_metadata

        def updated(cluster: ClusterMetadata, answer: Any) -> None:
            change(cluster, answer)
            update(cluster, answer)

        patched.setattr(ClusterMetadata, "update_metadata", updated)
        yield


async def test_cluster_without_brokers(make_log: MakeKafkaLog, kafka_bootstrap: str, topic: str) -> None:
    """A broker that is there before the controller has let it in names no broker: the log is not available yet."""
    log = make_log(group=f"early-{topic}")
    await log.start()
    await append(log, b"a")
    reader = log.reader({0: 0})
    await log._topics.close()
    with metadata(lambda _, answer: answer.brokers.clear()):
        async with asyncio.timeout(60):
            with pytest.raises(LogUnavailableError, match="no broker yet"):
                await log.end_offset(0)
            with pytest.raises(LogUnavailableError, match="no broker yet"):
                await reader.fetch(100, 1)
            with pytest.raises(LogUnavailableError, match="NodeNotReady"):
                await log.start()
            await log.commit({0: 1})
    await log.commit({0: 2})

    assert await log.end_offset(0) == 1
    assert [b"a"] == [record[3] for record in (await read(reader, 1))[0]]
    assert await committed(kafka_bootstrap, log) == 2


async def test_cluster_without_a_controller(make_log: MakeKafkaLog) -> None:
    """Without a controller no topic can be created, and that is for now only."""
    log = make_log()

    def nobody(_: ClusterMetadata, answer: Any) -> None:
        answer.controller_id = -1

    with metadata(nobody), pytest.raises(LogUnavailableError, match="cannot be asked"):
        await log.start()
    await log.start()


# ------------------------------------------------------------------ a broker that hangs


async def ends(ending: Awaitable[Any], seconds: float) -> bool:
    """Whether something ends within `seconds`; as unavailable, or well."""
    async with asyncio.timeout(seconds):
        try:
            await ending
        except LogUnavailableError:
            return False
        return True


@pytest.mark.timeout(120)
async def test_hung_broker(own_broker: KafkaBroker) -> None:
    """While a broker hangs, nothing lasts longer than its time-out; then all goes on, and nothing is left over."""
    settings = KafkaSettings(request_timeout_ms=1000)
    log = KafkaLog(own_broker.bootstrap, topic="t", partitions=1, settings=settings)
    tasks = asyncio.all_tasks()
    await log.start()
    await append(log, b"a")
    reader = log.reader({0: 0})
    await read(reader, 1)
    await log.end_offset(0)
    await log.commit({0: 1})
    own_broker.pause()
    try:
        for _ in range(2):  # with clients that were there before, and with new ones
            assert not await ends(log.start(), 15)
            assert not await ends(log.end_offset(0), 15)
            assert await ends(log.commit({0: 1}), 20)
        while await ends(reader.fetch(500, 10), 20):
            pass
        assert not await ends(reader.fetch(500, 10), 20)
    finally:
        own_broker.resume()
    async with asyncio.timeout(60):
        while not await ends(log.append([Entry(0, b"\0\0", b"b")]), 30):
            pass
        while not await ends(log.check(0, 0, None), 30):
            pass
        while b"b" not in {record[3] for record in (await fetched(reader)).get(0, [])}:
            pass
    await log.commit({0: 2})
    assert await committed(own_broker.bootstrap, log) == 2
    await log.close()
    assert asyncio.all_tasks() == tasks


async def fetched(reader: Any) -> dict[int, list[Any]]:
    """What is there now; nothing while the log is unavailable."""
    try:
        found: dict[int, list[Any]] = await reader.fetch(200, 10)
    except LogUnavailableError:
        return {}
    return found


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (KafkaConnectionError("Unable to bootstrap from [('never-asked', 1)]"), "no broker answers"),
        (KafkaConnectionError("Connection at b:1 closed"), "no broker answers (Connection at b:1 closed)"),
        (TimeoutError(), "the broker did not answer in time"),
        (TopicAuthorizationFailedError("orders"), "the broker answers TOPIC_AUTHORIZATION_FAILED (orders)"),
        (ConnectionRefusedError(111, "Connection refused"), "Connection refused"),
        (KeyError("a customer's value"), "KeyError"),
    ],
)
def test_failures_of_kafka_are_sentences(error: Exception, said: str) -> None:
    """What a message says of a failure is for people, and repeats nothing of a record."""
    assert said == told(error)
