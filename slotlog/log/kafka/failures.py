"""Keeps why the last connection to each broker failed: aiokafka only logs it, and raises that no broker answers.

So who reads the error hears of a wrong password, or of a certificate that does not verify. The texts hold what brokers
and TLS say, and no secret.
"""

from __future__ import annotations

import os
import socket
import ssl
from time import monotonic
from typing import Final, NamedTuple

from aiokafka.errors import BrokerResponseError, KafkaConnectionError


class ConnectionFailure(NamedTuple):
    """One that was not made.

    Attributes:
        host: of the broker.
        port: of the broker.
        text: why, for people.
        refused: there is a broker, and it or TLS has refused the connection.
        at: monotonic time in seconds.
    """

    host: str
    port: int
    text: str
    refused: bool
    at: float

    def __str__(self) -> str:
        return f"{self.host}:{self.port}: {self.text}"


_failures: Final[dict[tuple[str, int], ConnectionFailure]] = {}  # of this process; the last one stands last


def note_failure(host: str, port: int, error: Exception, mechanism: str | None) -> None:
    """Keep why a connection failed, until one to the same broker is made.

    Args:
        host: of the broker.
        port: of the broker.
        error: what aiokafka raised.
        mechanism: of SASL, that was asked for.
    """
    _failures.pop((host, port), None)
    refused = isinstance(error, BrokerResponseError | ssl.SSLError)
    _failures[host, port] = ConnectionFailure(host, port, _told(error, mechanism), refused, monotonic())


def forget_failure(host: str, port: int) -> None:
    """A connection was made."""
    _failures.pop((host, port), None)


def bootstrap_failure(text: str) -> ConnectionFailure | None:
    """The last failure of the servers that aiokafka lists in the text of its error: "[('broker', 9092, …), …]"."""
    named = [each for (host, port), each in _failures.items() if f"({host!r}, {port}," in text]
    return named[-1] if named else None


def recent_failure(seconds: float) -> ConnectionFailure | None:
    """The last failure, if it is of the last `seconds`."""
    last = next(reversed(_failures.values()), None)
    return last if last is not None and monotonic() - last.at < seconds else None


def _told(error: Exception, mechanism: str | None) -> str:
    if isinstance(error, BrokerResponseError):
        # What says that a mechanism is unknown carries the connection; what refuses a password, a sentence.
        said = ", ".join(each for each in error.args if isinstance(each, str)) or mechanism or ""
        return f"the broker answers {error.message}" + (f" ({said})" if said else "")
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the broker's certificate does not verify: {error.verify_message.rstrip('.')}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or 'the broker ended it'}"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, OSError) and error.errno is not None and not isinstance(error, socket.gaierror):
        return os.strerror(error.errno)
    if isinstance(error, KafkaConnectionError | ConnectionError):  # such as a port that expects TLS, or does not
        return "the connection was closed at once; is the security protocol the one of this port?"
    if isinstance(error, OSError):
        return error.strerror or str(error) or type(error).__name__
    return ", ".join(map(str, error.args)) or type(error).__name__
