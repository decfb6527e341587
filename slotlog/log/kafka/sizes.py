"""Reads a topic's size on the brokers' disks: DescribeLogDirs, which aiokafka does not have.

It wants the right to DESCRIBE the cluster. Version 1, which brokers from 1.1 on know:

    request   [topic [partition:4]*]*
    answer    throttle_ms:4 [error_code:2 log_dir [topic [partition:4 size:8 offset_lag:8 is_future:1]*]*]*
"""

from __future__ import annotations

from typing import Any, Final

from aiokafka import AIOKafkaConsumer
from aiokafka.client import ConnectionGroup
from aiokafka.errors import ClusterAuthorizationFailedError, for_code
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Array, Boolean, Int16, Int32, Int64, Schema, String

_API_KEY: Final = 35
_API_VERSION: Final = 1


async def topic_bytes(consumer: AIOKafkaConsumer, topic: str, partitions: int) -> int | None:
    """Bytes of all partitions, of each that of its largest replica; None when this user may not ask.

    Raises:
        KafkaError: a broker does not answer, or has an error for an answer.
    """
    largest: dict[int, int] = {}
    client = consumer._client  # noqa: SLF001 - the public part has no requests
    for broker in client.cluster.brokers():
        request = _LogDirsRequest(topic, list(range(partitions)))
        answer = await client.send(broker.nodeId, request, group=ConnectionGroup.COORDINATION)
        for code, _, topics in answer.results:
            if code == ClusterAuthorizationFailedError.errno:
                return None
            if code:
                raise for_code(code)(topic)
            for _, replicas in topics:
                for partition, size, _, is_future in replicas:
                    if not is_future:
                        largest[partition] = max(largest.get(partition, 0), size)
    return sum(largest.values())


class _LogDirsResponse1(Response):  # type: ignore[misc] # aiokafka comes without types here
    API_KEY = _API_KEY
    API_VERSION = _API_VERSION
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "results",
            Array(
                ("error_code", Int16),
                ("log_dir", String("utf-8")),
                (
                    "topics",
                    Array(
                        ("name", String("utf-8")),
                        (
                            "partitions",
                            Array(("partition", Int32), ("size", Int64), ("offset_lag", Int64), ("is_future", Boolean)),
                        ),
                    ),
                ),
            ),
        ),
    )


class _LogDirsRequest1(RequestStruct):  # type: ignore[misc] # as above
    API_KEY = _API_KEY
    API_VERSION = _API_VERSION
    RESPONSE_TYPE = _LogDirsResponse1
    SCHEMA = Schema(("topics", Array(("topic", String("utf-8")), ("partitions", Array(Int32)))))


class _LogDirsRequest(Request[_LogDirsRequest1]):  # type: ignore[misc] # as above
    """What the directories of one broker hold of one topic."""

    API_KEY = _API_KEY

    def __init__(self, topic: str, partitions: list[int]) -> None:
        self._topic = topic
        self._partitions = partitions

    def build(self, request_struct_class: type[Any]) -> Any:
        """The request on the wire."""
        return request_struct_class([(self._topic, self._partitions)])
