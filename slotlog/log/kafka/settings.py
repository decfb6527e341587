"""Settings of the connection to Kafka, without the import of aiokafka, which takes 0.1 s."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from ssl import SSLContext
from typing import Any, Literal, get_args

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


def _about(text: str, **more: str) -> dict[str, Any]:
    """The metadata of a field: what tables of settings say of it."""
    return {"description": text, "json_schema_extra": more}


@dataclass(frozen=True, kw_only=True)
class KafkaSettings:
    """Connection, security and topic settings; `metadata` of each field says what it is for.

    Example:
        >>> KafkaSettings(security_protocol="SASL_SSL", sasl_username="ann", sasl_password="secret").sasl_mechanism
        'SCRAM-SHA-512'

    Raises:
        ValueError: a protocol or mechanism that there is not.
    """

    client_id: str = field(default="slotlog", metadata=_about("name of this client in the broker's logs and quotas"))
    group: str = field(
        default="slotlog",
        metadata=_about(
            "consumer group of the committed offsets, which lag tools read and which say who owns a partition"
        ),
    )
    security_protocol: SecurityProtocol = field(default="PLAINTEXT", metadata=_about("as in Kafka's clients"))
    sasl_mechanism: SaslMechanism = field(default="SCRAM-SHA-512", metadata=_about("as in Kafka's clients"))
    sasl_username: str | None = field(default=None, metadata=_about("user name for SASL"))
    sasl_password: str | None = field(default=None, repr=False, metadata=_about("password for SASL", format="password"))
    ssl_ca: Path | None = field(
        default=None,
        metadata=_about("PEM file of the trusted authorities; absent: those of the system. Host names are checked"),
    )
    ssl_certificate: Path | None = field(
        default=None, metadata=_about("PEM file of the client's certificate, for mutual TLS")
    )
    ssl_key: Path | None = field(default=None, metadata=_about("PEM file of that certificate's key"))
    ssl_key_password: str | None = field(
        default=None, repr=False, metadata=_about("password of that key", format="password")
    )
    replicas: int | None = field(
        default=None,
        metadata=_about(
            "replicas of a topic that slotlog creates; absent: 3, or the number of brokers if that is smaller"
        ),
    )
    create_time: bool = field(
        default=False,
        metadata=_about(
            "whether to accept a topic with CreateTime; a producer with a wrong clock can then expire keys of others"
        ),
    )
    finite_retention: bool = field(
        default=False,
        metadata=_about(
            "whether to accept a topic with a finite retention.ms; the snapshots of its workers must keep ahead of it"
        ),
    )
    request_timeout_ms: int = field(
        default=30_000,
        metadata=_about("time limit of a request; after it the outcome of an append counts as unknown"),
    )

    def __post_init__(self) -> None:
        for value, known in ((self.security_protocol, SecurityProtocol), (self.sasl_mechanism, SaslMechanism)):
            if value not in get_args(known):
                raise ValueError(f"{value!r} is not one of {', '.join(get_args(known))}")

    def client_arguments(self) -> dict[str, Any]:
        """What every aiokafka client takes. It holds the password in clear: for passing on, not for keeping.

        Whoever asks is about to make one, so its connections are mended here: no client can be made without.
        """
        from slotlog.log.kafka.connection import mend_connections  # noqa: PLC0415 - see the module's docstring

        mend_connections()
        arguments: dict[str, Any] = {
            "client_id": self.client_id,
            "security_protocol": self.security_protocol,
            "request_timeout_ms": self.request_timeout_ms,
        }
        if self.security_protocol in ("SSL", "SASL_SSL"):
            arguments["ssl_context"] = self._ssl_context()
        if self.security_protocol.startswith("SASL"):
            if self.sasl_username is None or self.sasl_password is None:
                raise ValueError(f"{self.security_protocol} needs sasl_username and sasl_password")
            arguments["sasl_mechanism"] = self.sasl_mechanism
            arguments["sasl_plain_username"] = self.sasl_username
            arguments["sasl_plain_password"] = self.sasl_password
        return arguments

    def _ssl_context(self) -> SSLContext:
        from aiokafka.helpers import create_ssl_context  # noqa: PLC0415 - see the module's docstring

        context: SSLContext = create_ssl_context(
            cafile=self.ssl_ca,
            certfile=self.ssl_certificate,
            keyfile=self.ssl_key,
            password=self.ssl_key_password,
        )
        return context
