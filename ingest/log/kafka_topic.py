"""The topic itself: created with the settings that a log of record needs, and held against them.

aiokafka's admin client gives errors as codes in its answers, never as exceptions: each answer is looked into here.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final, TypeVar

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import for_code
from structlog import get_logger

from ingest.errors import LogMismatchError, LogUnavailableError, Mismatch
from ingest.log.kafka_clients import client_arguments, ended, unavailable
from ingest.log.kafka_settings import KafkaSettings
from ingest.wording import counted

MESSAGE_BYTES_MAX: Final = 9 * 1024 * 1024
_REPLICAS: Final = 3
_APPEARS_WITHIN_SECONDS: Final = 30.0
_ALREADY_EXISTS: Final = 36

LOSES_EVENTS: Final = frozenset({Mismatch.COMPACTED, Mismatch.RETENTION})

T = TypeVar("T")

logger = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class TopicRules:
    """What a topic must be.

    Attributes:
        name: the topic.
        partitions: how many it must have.
        message_bytes_max: the largest batch that it must take.
        create_time: whether CreateTime will do.
    """

    name: str
    partitions: int
    message_bytes_max: int = MESSAGE_BYTES_MAX
    create_time: bool = False

    def settings(self, replicas: int) -> dict[str, str]:
        """The settings to create it with: nothing in it ever ages or is taken back, every append is on two disks."""
        return {
            "cleanup.policy": "delete",
            "retention.ms": "-1",
            "retention.bytes": "-1",
            "message.timestamp.type": "CreateTime" if self.create_time else "LogAppendTime",
            "max.message.bytes": str(self.message_bytes_max),
            "min.insync.replicas": str(min(2, replicas)),
            "unclean.leader.election.enable": "false",
        }

    def breaches(self, found: dict[str, str], replicas: int) -> list[tuple[Mismatch, str]]:
        """Each setting in `found` that will not do: its kind, and what is wrong."""
        wrong: list[tuple[Mismatch, str]] = []
        if "compact" in found["cleanup.policy"]:
            text = f"cleanup.policy={found['cleanup.policy']}: it is compacted, so commands are lost; use another topic"
            wrong.append((Mismatch.COMPACTED, text))
        for name in ("retention.ms", "retention.bytes"):
            if found[name] != "-1":
                text = f"{name}={found[name]}: events would age out of the log; set it to -1"
                wrong.append((Mismatch.RETENTION, text))
        if found["message.timestamp.type"] != "LogAppendTime" and not self.create_time:
            text = "message.timestamp.type=CreateTime: a wrong clock could expire keys; set LogAppendTime, or allow it"
            wrong.append((Mismatch.SETTINGS, text))
        if found.get("unclean.leader.election.enable", "false") != "false":
            text = "unclean.leader.election.enable=true: acknowledged events could be lost; set it to false"
            wrong.append((Mismatch.SETTINGS, text))
        for name, least in (("max.message.bytes", self.message_bytes_max), ("min.insync.replicas", min(2, replicas))):
            if int(found[name]) < least:
                wrong.append((Mismatch.SETTINGS, f"{name}={found[name]}: set it to {least} at least"))
        return wrong


class KafkaTopics:
    """Creates and checks topics.

    Args:
        servers: bootstrap servers.
        settings: how to reach them.
    """

    def __init__(self, servers: str, settings: KafkaSettings) -> None:
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
        if create and await self._describe(rules.name) is None:
            await self._create(rules)
        await self.check(rules)

    async def check(self, rules: TopicRules, kinds: Collection[Mismatch] = frozenset(Mismatch)) -> None:
        """Hold the topic against `rules`, settings of `kinds` only.

        Raises:
            LogMismatchError: it is missing, or breaks the rules.
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
        wrong = [(kind, text) for kind, text in rules.breaches(found, min(replicas)) if kind in kinds]
        if wrong:
            texts = "; ".join(text for _, text in wrong)
            raise LogMismatchError(wrong[0][0], f"the topic {rules.name} cannot be used: {texts}")

    async def close(self) -> None:
        """Let go of the connection."""
        client, self._client = self._client, None
        if client is not None:
            await ended(client.close())

    async def _describe(self, name: str) -> list[int] | None:
        """For each partition the number of its replicas; None if there is no such topic."""
        # All topics are asked for: a question about one by its name would create it, where brokers are set up so.
        topics = await self._ask(lambda client: client.describe_topics(None))
        for topic in topics:
            if topic["topic"] == name:
                if topic["error_code"] != 0:
                    code = for_code(topic["error_code"]).__name__
                    raise LogUnavailableError(f"the topic {name} cannot be used now: {code}")
                return [len(partition["replicas"]) for partition in topic["partitions"]]
        return None

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
        until = monotonic() + _APPEARS_WITHIN_SECONDS
        while monotonic() < until:  # brokers hear of it from the controller, a moment later
            with contextlib.suppress(LogUnavailableError):
                if await self._describe(rules.name) is not None:
                    logger.warning(
                        "topic_created",
                        topic=rules.name,
                        partitions=rules.partitions,
                        replicas=replicas,
                        hint="it was not there; if it should have been, look at --topic and at the broker",
                    )
                    return
            await asyncio.sleep(0.05)
        raise LogUnavailableError(f"the topic {rules.name} was created, but does not appear")

    async def _ask(self, question: Callable[[AIOKafkaAdminClient], Awaitable[T]]) -> T:
        async with self._asking:
            client = self._client
            if client is None:
                client = self._client = AIOKafkaAdminClient(**client_arguments(self._servers, self._settings))
            try:
                async with asyncio.timeout(self._settings.request_timeout_ms / 1000):
                    await client.start()  # nothing, but the first time
                    return await question(client)
            except LogMismatchError:
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
