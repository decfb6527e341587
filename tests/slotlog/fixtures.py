"""Both logs behind one fixture, so that one suite holds both to the protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

import pytest
from aiokafka.admin import AIOKafkaAdminClient

from slotlog.log import KafkaSettings, Log, open_log
from slotlog.log.embedded.embedded_log import EmbeddedLog
from slotlog.log.kafka.kafka_log import KafkaLog

OpenLog: TypeAlias = Callable[..., Awaitable[Log]]
"""Opens and starts a log: `await open_one(topic="t", partitions=2)`; the same topic again is the same log again."""

MakeKafkaLog: TypeAlias = Callable[..., KafkaLog]
"""Makes a log on the test's topic, one partition unless told otherwise, with the settings given; not started."""


@pytest.fixture(params=["local", "kafka"])
async def open_one(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[OpenLog]:
    """An opener of logs of either kind; what it opened is closed after the test."""
    opened: list[Log] = []
    unique = uuid4().hex  # the broker is shared by all tests

    async def open_and_start(*, topic: str = "t", partitions: int = 2, create: bool = True) -> Log:
        if request.param == "kafka":
            url, name = f"kafka://{request.getfixturevalue('kafka_bootstrap')}", f"{topic}-{unique}"
        else:
            url, name = f"sqlite:///{tmp_path / topic}.log", topic
        log = open_log(url, topic=name, partitions=partitions, create=create)
        opened.append(log)
        await log.start()
        return log

    yield open_and_start
    for log in opened:
        await log.close()


@pytest.fixture
async def log(open_one: OpenLog) -> Log:
    """An empty log of two partitions."""
    return await open_one()


@pytest.fixture
def topic() -> str:
    """A name that no other test has."""
    return f"t-{uuid4().hex}"


@pytest.fixture
async def admin(kafka_bootstrap: str) -> AsyncIterator[AIOKafkaAdminClient]:
    """An admin client, to do to topics what happens to them in real life."""
    client = AIOKafkaAdminClient(bootstrap_servers=kafka_bootstrap)
    await client.start()
    yield client
    await client.close()


@pytest.fixture
async def make_log(kafka_bootstrap: str, topic: str) -> AsyncIterator[MakeKafkaLog]:
    """Makes logs on the test's topic, one partition unless told otherwise; they are closed after the test."""
    made: list[KafkaLog] = []

    def make(*, partitions: int = 1, **settings: Any) -> KafkaLog:
        made.append(KafkaLog(kafka_bootstrap, topic=topic, partitions=partitions, settings=KafkaSettings(**settings)))
        return made[-1]

    yield make
    for log in made:
        await log.close()


@pytest.fixture
def local_path(tmp_path: Path) -> Path:
    """Where the embedded log is."""
    return tmp_path / "log.db"


@pytest.fixture
async def local_log(local_path: Path) -> AsyncIterator[EmbeddedLog]:
    """An empty embedded log of two partitions."""
    log = EmbeddedLog(local_path, topic="t", partitions=2)
    await log.start()
    yield log
    await log.close()
