"""Makes uvloop close aiokafka's connections in the way that aiokafka expects, and keeps why one could not be made.

aiokafka takes OSError from a write as the end of the connection; asyncio's own transports raise nothing else. Those of
uvloop raise RuntimeError between the moment in which the broker went away and the one in which the connection hears of
it (https://github.com/aio-libs/aiokafka/issues/1038, open). That goes up through aiokafka's background tasks, of which
the producer's sender and the metadata's synchronizer do not survive it, and out of calls that are to raise KafkaError.
"""

from __future__ import annotations

from typing import Any

import aiokafka.conn
from aiokafka.conn import AIOKafkaConnection, CloseReason
from aiokafka.errors import KafkaConnectionError

from slotlog.log.kafka.failures import forget_failure, note_failure


class KafkaConnection(AIOKafkaConnection):  # type: ignore[misc] # aiokafka has no types
    """A connection whose writes fail with KafkaConnectionError only, and whose failure to connect is kept."""

    _was_made = False

    async def connect(self) -> Any:
        """As aiokafka's, which logs what this raises, and goes on."""
        try:
            made = await super().connect()
        except Exception as error:
            note_failure(self._host, self._port, error, self._sasl_mechanism)
            raise
        self._was_made = True
        forget_failure(self._host, self._port)
        return made

    def close(self, reason: Any = None, exc: BaseException | None = None) -> Any:
        """As aiokafka's, but one that was never made is closed at once.

        TLS would keep its socket until the broker says farewell, for 30 s at most, and nobody waits for that.
        """
        writer = self._writer
        closed = super().close(reason, exc)
        if writer is not None and not self._was_made:
            writer.transport.abort()
        return closed

    def send(self, request: Any, expect_response: bool = True) -> Any:
        """As aiokafka's.

        Raises:
            KafkaConnectionError: the connection is closed.
        """
        try:
            return super().send(request, expect_response)
        except RuntimeError as error:
            self._end_by(error)
            raise

    def _send_sasl_token(self, payload: bytes, expect_response: bool = True) -> Any:
        try:
            return super()._send_sasl_token(payload, expect_response)
        except RuntimeError as error:
            self._end_by(error)
            raise

    def _end_by(self, error: RuntimeError) -> None:
        """Close and raise, if it was a write that failed: KafkaError and NotImplementedError are RuntimeErrors too."""
        if type(error) is RuntimeError:
            self.close(reason=CloseReason.CONNECTION_BROKEN)
            raise KafkaConnectionError(f"Connection at {self._host}:{self._port} broken: {error}") from error


def mend_connections() -> None:
    """Let the aiokafka clients that are made from now on use `KafkaConnection`. They have no argument for it."""
    aiokafka.conn.AIOKafkaConnection = KafkaConnection
