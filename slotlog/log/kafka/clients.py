"""Opens aiokafka's clients for requests, closes them in bounded time, and replaces them after a failure.

What a client raises when a broker goes away at the wrong moment is not KafkaError alone: it may be KeyError (a request
timed out whose connection is replaced already), AssertionError or AttributeError (a cluster without brokers). And one
whose background task has ended never says so, but waits for it. So whatever is raised counts as a log that cannot be
reached, and no client is used a second time after that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import (
    AuthenticationFailedError,
    BrokerResponseError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    NoBrokersAvailable,
    NodeNotReadyError,
)

from slotlog.errors import LogUnavailableError
from slotlog.log.kafka.failures import bootstrap_failure, recent_failure
from slotlog.log.kafka.metadata import pause_between_metadata
from slotlog.log.kafka.settings import KafkaSettings
from slotlog.log_lines import LineLogger
from slotlog.shared.shown_errors import named_error

_END_SECONDS: Final = 5.0

GONE: Final = (KafkaConnectionError, NodeNotReadyError)
"""What a client raises that asks a broker which is not there: another one may be."""

_SENTENCES: Final[tuple[tuple[type[Exception], str], ...]] = (
    (AuthenticationFailedError, "the broker refuses user name or password"),
    (NoBrokersAvailable, "no broker is up yet"),
    (KafkaConnectionError, "no broker answers"),
    (KafkaTimeoutError, "the broker did not answer in time"),
    (TimeoutError, "the broker did not answer in time"),
)
"""What the commonest failures mean for whoever reads a message."""

_BOOTSTRAP: Final = "Unable to bootstrap"
_JUST_NOW_SECONDS: Final = 0.2  # the failure is kept right before the error is raised that follows from it
_RECENT_SECONDS: Final = 5.0

logger = LineLogger(__name__)


def unavailable(text: str, error: Exception) -> LogUnavailableError:
    """What to raise where aiokafka raised `error`, whatever that is.

    Args:
        text: what failed.
        error: with its traceback, which is logged unless it is one that clients are meant to raise.
    """
    if not isinstance(error, KafkaError | OSError):  # OSError: TimeoutError is one
        logger.warning("kafka_client_failed", error=named_error(error))
        logger.debug("kafka_client_failed", exc_info=error)  # while a broker comes up it is nobody's fault
    return LogUnavailableError(f"{text}: {told(error)}")


def told(error: Exception) -> str:
    """What a message may say of whatever aiokafka raised: its own texts repeat nothing of a record, others may."""
    if isinstance(error, BrokerResponseError):  # by its class, a word of Kafka's protocol, and what the broker said
        return f"the broker answers {error.message}{_detail(error)}"
    if why := _connection_failure(error):
        return why
    for kind, sentence in _SENTENCES:
        if isinstance(error, kind):
            return f"{sentence}{_detail(error)}"
    if isinstance(error, OSError):
        return error.strerror or str(error) or "the connection failed"
    return repr(error) if isinstance(error, KafkaError) else named_error(error)


def _connection_failure(error: Exception) -> str:
    """Why no connection was made, where aiokafka has raised only that there is none; empty: not known."""
    bootstrapped = str(error) if isinstance(error, KafkaConnectionError) else ""
    if _BOOTSTRAP in bootstrapped:
        failure = bootstrap_failure(bootstrapped)
    elif isinstance(error, NodeNotReadyError):
        failure = recent_failure(_JUST_NOW_SECONDS)
    else:
        return ""
    if failure is None:
        return ""
    return f"no connection to {failure}" if failure.refused else f"no broker answers ({failure})"


def _detail(error: Exception) -> str:
    """What an error was raised with, in brackets: for aiokafka's own, the address or topic that it is about."""
    said = ", ".join(map(str, error.args))
    is_late = isinstance(error, KafkaTimeoutError | TimeoutError)
    if is_late and (failure := recent_failure(_RECENT_SECONDS)) and failure.refused:
        return f" (no connection to {failure})"  # else what was asked may have been slow for any other reason
    return f" ({said})" if said and _BOOTSTRAP not in said else ""  # the message names the servers already


def client_arguments(servers: str, settings: KafkaSettings) -> dict[str, Any]:
    """What every client takes.

    Raises:
        LogUnavailableError: a certificate cannot be read now: somebody may be replacing it.
        ValueError: settings that contradict each other.
    """
    try:
        return {"bootstrap_servers": servers, **settings.client_arguments()}
    except OSError as error:
        raise unavailable(f"the certificates for Kafka at {servers} cannot be read", error) from error


async def open_consumer(
    servers: str, settings: KafkaSettings, *, group: str | None = None, fetch_bytes: int = 1024 * 1024
) -> AIOKafkaConsumer:
    """A started consumer that skips nothing by itself.

    Args:
        servers: bootstrap servers.
        settings: how to reach them.
        group: for commits alone.
        fetch_bytes: how much of one partition is fetched ahead; a larger record comes all the same.

    Raises:
        LogUnavailableError: no broker answers.
        ValueError: settings that contradict each other.
    """
    consumer = AIOKafkaConsumer(
        group_id=group,
        auto_offset_reset="none",
        enable_auto_commit=False,
        isolation_level="read_committed",
        max_partition_fetch_bytes=fetch_bytes,
        **client_arguments(servers, settings),
    )
    pause_between_metadata(consumer._client)  # noqa: SLF001 - the public part has no setting for it
    try:
        async with asyncio.timeout(settings.request_timeout_ms / 1000):
            await _start(consumer)
    except Exception as error:
        await stop_consumer(consumer)
        raise unavailable(f"Kafka at {servers} cannot be reached", error) from error
    except BaseException:
        await stop_consumer(consumer)
        raise
    return consumer


async def _start(consumer: AIOKafkaConsumer) -> None:
    """Start a consumer, unless the cluster has no broker.

    A broker that has just been started names none, not even itself. The client would ask it again, over this one
    connection, without a pause; and once that is lost it has nobody left to ask, for ever.
    """
    await consumer.start()
    if consumer._client.get_random_node() is None:  # noqa: SLF001 - the public part does not name brokers
        raise NoBrokersAvailable("the cluster has no broker yet")


def is_dead(consumer: AIOKafkaConsumer) -> bool:
    """Whether a task of a started consumer has ended without which it waits for ever: it fetches, or knows leaders."""
    return bool(consumer._fetcher.error_future.done() or consumer._client._sync_task.done())  # noqa: SLF001 - it never says


async def stop_consumer(consumer: AIOKafkaConsumer) -> None:
    """Stop a consumer, also when no broker answers, within 10 s.

    aiokafka stops its parts one after the other, and leaves those behind one that fails: that is done here.
    """
    if await ended(consumer.stop()):
        return
    coordinator, fetcher = consumer._coordinator, consumer._fetcher  # noqa: SLF001 - the public way has just failed
    names = ("_reset_committed_task", "_coordination_task", "_commit_refresh_task")
    tasks = [getattr(coordinator, name, None) for name in names]
    if fetcher is not None:
        tasks += [fetcher.error_future, *fetcher._pending_tasks]  # noqa: SLF001 - as above
    for task in tasks:
        if task is not None:
            task.cancel()
    await ended(consumer._client.close())  # noqa: SLF001 - as above


async def ended(ending: Coroutine[Any, Any, None], seconds: float = _END_SECONDS) -> bool:
    """Run what ends a client, for so long at most; whether it came to its end.

    In a task of its own: aiokafka awaits what it has cancelled, so that its own end may be a cancellation, which would
    be taken for one of ours, or ours for one of those. TLS waits for the other side's farewell, for 30 s.
    """
    task = asyncio.create_task(ending)
    try:
        await asyncio.wait((task,), timeout=seconds)
        return task.done() and not task.cancelled() and task.exception() is None
    finally:
        task.cancel()
