"""Changes to a Kafka topic behind a service's back, by an operator or a mistake."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType


class Topic:
    """One topic, as its administrator has it."""

    def __init__(self, admin: AIOKafkaAdminClient, name: str) -> None:
        self._admin = admin
        self.name = name

    async def delete(self) -> None:
        """Delete it, and wait until it is gone."""
        answer = await self._admin.delete_topics([self.name])
        assert [0] == [code for _, code, *_ in answer.topic_error_codes]
        while self.name in await self._admin.list_topics():  # noqa: ASYNC110 - the broker sends no event
            await asyncio.sleep(0.05)

    async def delete_records(self, before_offset: int) -> None:
        """Forget the records of partition 0 before an offset."""
        await self._admin.delete_records({TopicPartition(self.name, 0): RecordsToDelete(before_offset)})

    async def add_partition(self) -> None:
        """Have one more."""
        partitions = (await self._admin.describe_topics([self.name]))[0]["partitions"]
        answer = await self._admin.create_partitions({self.name: NewPartitions(len(partitions) + 1)})
        assert [0] == [code for _, code, *_ in answer.topic_errors]

    async def configure(self, **settings: str) -> None:
        """Set it up anew, with `_` for `.`; whatever is not named gets the broker's default."""
        named = {name.replace("_", "."): value for name, value in settings.items()}
        resource = ConfigResource(ConfigResourceType.TOPIC, self.name, named)
        for answer in await self._admin.alter_configs([resource]):
            assert [0] == [code for code, *_ in answer.resources]


@asynccontextmanager
async def administered(bootstrap: str, name: str) -> AsyncIterator[Topic]:
    """The topic, with a connection to its broker."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        yield Topic(admin, name)
    finally:
        await admin.close()
