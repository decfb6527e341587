"""Creates the topic with the settings that slotlog needs, and checks them.

aiokafka's admin client gives errors as codes in its answers, never as exceptions: each answer is looked into here.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final, NamedTuple, TypeVar

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.admin.records_to_delete import RecordsToDelete
from aiokafka.errors import for_code
from aiokafka.protocol.metadata import MetadataRequest

from slotlog.errors import LogMismatchError, LogUnavailableError, Mismatch
from slotlog.log.kafka.clients import GONE, client_arguments, ended, unavailable
from slotlog.log.kafka.settings import KafkaSettings
from slotlog.log_lines import LineLogger
from slotlog.wording import counted

MESSAGE_BYTES_MAX: Final = 9 * 1024 * 1024
_REPLICAS: Final = 3
_APPEARS_WITHIN_SECONDS: Final = 30.0
_APPEARS_AFTER_SECONDS: Final = 0.2
_ALREADY_EXISTS: Final = 36

FOR_EVER: Final = "-1"

HARMS_LATER: Final = frozenset({"max.message.bytes", "min.insync.replicas", "unclean.leader.election.enable"})
"""Settings that may refuse or lose what is appended from now on. What the others do to the log cannot be undone: events
age out of it, or come into it with a time that no broker has set."""

T = TypeVar("T")

logger = LineLogger(__name__)


class Breach(NamedTuple):
    """One setting of a topic that will not do; `text` says what it is and what to do."""

    setting: str
    kind: Mismatch
    text: str


@dataclass(frozen=True, slots=True)
class TopicRules:
    """The required settings of a topic.

    Attributes:
        name: the topic.
        partitions: how many it must have.
        message_bytes_max: the largest batch that it must take.
        create_time: whether CreateTime will do.
        finite_retention: whether records may age out of it.
    """

    name: str
    partitions: int
    message_bytes_max: int = MESSAGE_BYTES_MAX
    create_time: bool = False
    finite_retention: bool = False

    def settings(self, replicas: int) -> dict[str, str]:
        """The settings to create it with: nothing in it ever ages or is taken back, every append is on two disks."""
        return {
            "cleanup.policy": "delete",
            "retention.ms": FOR_EVER,
            "retention.bytes": FOR_EVER,
            "message.timestamp.type": "CreateTime" if self.create_time else "LogAppendTime",
            "max.message.bytes": str(self.message_bytes_max),
            "min.insync.replicas": str(min(2, replicas)),
            "unclean.leader.election.enable": "false",
        }

    def breaches(self, found: dict[str, str], replicas: int) -> list[Breach]:
        """Each setting in `found` that will not do."""
        wrong: list[Breach] = []

        def note(setting: str, kind: Mismatch, text: str) -> None:
            wrong.append(Breach(setting, kind, f"{setting}={found[setting]}: {text}"))

        if "compact" in found["cleanup.policy"]:
            note("cleanup.policy", Mismatch.COMPACTED, "it is compacted, so commands are lost; use another topic")
        if found["retention.ms"] != FOR_EVER and not self.finite_retention:
            note("retention.ms", Mismatch.RETENTION, "events would age out of the log; set it to -1")
        if found["retention.bytes"] != FOR_EVER:  # a burst of writes could push events out before any snapshot
            note("retention.bytes", Mismatch.RETENTION, "events would age out of the log; set it to -1")
        if found["message.timestamp.type"] != "LogAppendTime" and not self.create_time:
            text = "a wrong clock could expire keys; set LogAppendTime, or allow it by SLOTLOG_KAFKA__CREATE_TIME=true"
            note("message.timestamp.type", Mismatch.SETTINGS, text)
        if found.get("unclean.leader.election.enable", "false") != "false":
            text = "acknowledged events could be lost; set it to false"
            note("unclean.leader.election.enable", Mismatch.SETTINGS, text)
        for name, least in (("max.message.bytes", self.message_bytes_max), ("min.insync.replicas", min(2, replicas))):
            if int(found[name]) < least:
                note(name, Mismatch.SETTINGS, f"set it to {least} at least")
        return wrong


class KafkaTopics:
    """Creates and checks topics.

    Args:
        servers: bootstrap servers.
        settings: how to reach them.

    Attributes:
        retention_ms: of the topic that was looked at last; None: its records never age out.
    """

    def __init__(self, servers: str, settings: KafkaSettings) -> None:
        self.retention_ms: int | None = None
        self._servers = servers
        self._settings = settings
        self._client: AIOKafkaAdminClient | None = None
        self._asking = asyncio.Lock()

    async def ensure(self, rules: TopicRules, *, create: bool) -> None:
        """Create the topic if it is not there and `create` is set, then check it.

        Raises:
            LogMismatchError: it is missing, or breaks the rules.
            LogUnavailableError: the cluster cannot be asked.
        """
        if create:
            await self.create_missing(rules)
        await self.check(rules)

    async def create_missing(self, rules: TopicRules) -> None:
        """Create the topic if it is not there.

        Raises:
            LogUnavailableError: the cluster cannot be asked, or does not create it.
        """
        if await self._describe(rules.name) is None:
            await self._create(rules)

    async def check(self, rules: TopicRules, *, running: bool = False) -> tuple[str, ...]:
        """Hold the topic against `rules`.

        Args:
            rules: what it must be.
            running: it is in use already: what harms nothing that is in the log is returned, not raised.

        Returns:
            What would refuse the next start, each setting with what to do.

        Raises:
            LogMismatchError: it is missing, or breaks the rules.
            LogUnavailableError: the cluster cannot be asked.
        """
        wrong = await self.breaches(rules)
        texts = tuple(breach.text for breach in wrong)
        if wrong and not (running and all(breach.setting in HARMS_LATER for breach in wrong)):
            raise LogMismatchError(wrong[0].kind, f"the topic {rules.name} cannot be used: {'; '.join(texts)}")
        return texts

    async def breaches(self, rules: TopicRules) -> list[Breach]:
        """Each setting of the topic that breaks `rules`.

        Raises:
            LogMismatchError: it is missing, or has another number of partitions.
            LogUnavailableError: the cluster cannot be asked.
        """
        replicas = await self._describe(rules.name)
        if replicas is None:
            raise LogMismatchError(Mismatch.MISSING, f"there is no topic {rules.name}")
        if len(replicas) != rules.partitions:
            raise LogMismatchError(
                Mismatch.PARTITIONS_CHANGED,
                f"the topic {rules.name} has {counted(len(replicas), 'partition')}, not {rules.partitions} as expected:"
                " keys would lie elsewhere. Another number needs a new topic, filled by an export.",
            )
        found = await self._ask(lambda client: _read_settings(client, rules.name))
        self.retention_ms = None if found["retention.ms"] == FOR_EVER else int(found["retention.ms"])
        return rules.breaches(found, min(replicas))

    async def delete_records(self, name: str, partition: int, before_offset: int) -> int:
        """Delete what a partition has before an offset; the offset that it begins at then.

        Raises:
            LogUnavailableError: the cluster cannot be asked, or refuses.
        """
        tp = TopicPartition(name, partition)
        begins = await self._ask(lambda client: client.delete_records({tp: RecordsToDelete(before_offset)}))
        begin: int = begins[tp]
        return begin

    async def close(self) -> None:
        """Let go of the connection."""
        client, self._client = self._client, None
        if client is not None:
            await ended(client.close())

    async def _describe(self, name: str) -> list[int] | None:
        """For each partition the number of its replicas; None if no broker knows of such a topic.

        A broker hears of a new topic a moment after another one, so that a single one cannot say that there is none.
        """
        replicas, brokers = await self._described(name)
        for broker in brokers:
            if replicas is not None:
                break
            replicas, _ = await self._described(name, broker)
        return replicas

    async def _described(self, name: str, broker: int | None = None) -> tuple[list[int] | None, list[int]]:
        """What one broker, or any, knows of the topic; and the ids of the brokers that it knows."""
        # All topics are asked for: a question about one by its name would create it, where brokers are set up so.
        answer = await self._ask(lambda client: client._send_request(MetadataRequest(None), broker))  # noqa: SLF001 - the public part asks any broker
        metadata = answer.to_object()
        brokers = [each["node_id"] for each in metadata["brokers"]]
        for topic in metadata["topics"]:
            if topic["topic"] == name:
                if topic["error_code"] != 0:
                    code = for_code(topic["error_code"]).__name__
                    raise LogUnavailableError(f"the topic {name} cannot be used now: {code}")
                return [len(partition["replicas"]) for partition in topic["partitions"]], brokers
        return None, brokers

    async def _create(self, rules: TopicRules) -> None:
        cluster = await self._ask(lambda client: client.describe_cluster())
        replicas = self._settings.replicas or min(_REPLICAS, len(cluster["brokers"]))
        topic = NewTopic(rules.name, rules.partitions, replicas, topic_configs=rules.settings(replicas))
        answer = await self._ask(lambda client: client.create_topics([topic]))
        for _, code, *message in answer.topic_errors:
            if code not in (0, _ALREADY_EXISTS):
                said = message[0] if message else ""
                text = f"the topic {rules.name} cannot be created: {for_code(code).__name__} {said}".rstrip()
                raise LogUnavailableError(text)
        # Whoever is asked from now on, here or by another client of ours, is to know of it.
        await self._appeared(rules.name)
        logger.warning(
            "topic_created",
            topic=rules.name,
            partitions=rules.partitions,
            replicas=replicas,
            hint="it was not there; if it should have been, look at --topic and at the broker",
        )

    async def _appeared(self, name: str) -> None:
        """Wait until every broker knows of a topic that was just created.

        Raises:
            LogUnavailableError: one of them does not in time.
        """
        last_try = monotonic() + _APPEARS_WITHIN_SECONDS
        while True:
            try:
                return await self._known_to_all(name)
            except LogUnavailableError:
                if monotonic() >= last_try:
                    raise
            await asyncio.sleep(_APPEARS_AFTER_SECONDS)

    async def _known_to_all(self, name: str) -> None:
        """Ask every broker for a topic that was just created.

        Raises:
            LogUnavailableError: one of them does not know of it yet, or cannot be asked.
        """
        _, brokers = await self._described(name)
        for broker in brokers:
            replicas, _ = await self._described(name, broker)
            if replicas is None:
                raise LogUnavailableError(f"the topic {name} was created, but broker {broker} does not know of it yet")

    async def _ask(self, question: Callable[[AIOKafkaAdminClient], Awaitable[T]]) -> T:
        async with self._asking:
            if self._client is not None:
                with contextlib.suppress(*GONE):  # the broker that it asks; a new client asks one that is there
                    return await self._ask_client(self._client, question)
            self._client = AIOKafkaAdminClient(**client_arguments(self._servers, self._settings))
            try:
                return await self._ask_client(self._client, question)
            except GONE as error:
                raise unavailable(f"Kafka at {self._servers} cannot be asked", error) from error

    async def _ask_client(
        self, client: AIOKafkaAdminClient, question: Callable[[AIOKafkaAdminClient], Awaitable[T]]
    ) -> T:
        """Let go of the client after a failure.

        Raises:
            KafkaConnectionError, NodeNotReadyError: it is not connected to the broker that it has asked.
            LogUnavailableError, LogMismatchError: as `question`, and of all else that fails.
        """
        try:
            async with asyncio.timeout(self._settings.request_timeout_ms / 1000):
                await client.start()  # nothing, but the first time
                return await question(client)
        except LogMismatchError:
            raise
        except GONE:
            await self.close()
            raise
        except Exception as error:
            await self.close()
            raise unavailable(f"Kafka at {self._servers} cannot be asked", error) from error


async def _read_settings(client: AIOKafkaAdminClient, name: str) -> dict[str, str]:
    answers = await client.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)])
    code, message, _, _, entries = answers[0].resources[0]
    if for_code(code).retriable:  # such as a topic that was deleted since it was described
        raise for_code(code)(name)
    if code != 0:
        raise LogMismatchError(
            Mismatch.SETTINGS,
            f"the settings of the topic {name} cannot be read: {for_code(code).__name__} {message or ''}".rstrip(),
        )
    found: dict[str, Any] = {entry[0]: entry[1] for entry in entries}
    return found
