"""How to reach Kafka. Apart from `kafka.py`: settings are read without the 0.1 s that aiokafka takes to import."""

from __future__ import annotations

from pathlib import Path
from ssl import SSLContext
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, SecretStr


class KafkaSettings(BaseModel):
    """Connection, security and topic settings. Secrets are `SecretStr`: no repr, log line or error shows them.

    Attributes:
        client_id: what the broker's own logs and quotas call us.
        group: the consumer group under which positions are committed for lag tools; nothing is read from it.
        security_protocol, sasl_mechanism, sasl_username, sasl_password: as in Kafka's clients.
        ssl_ca, ssl_certificate, ssl_key, ssl_key_password: PEM files; the host name is always checked. Without `ssl_ca`
            the system's authorities are trusted.
        replicas: of topics that are created; None: 3, or one per broker where there are fewer.
        create_time: accept a topic with CreateTime. A producer with a wrong clock can then expire anybody's keys.
        request_timeout_ms: how long one request may take, and an append until it counts as uncertain.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    client_id: str = "slotlog"
    group: str = "slotlog"
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "SCRAM-SHA-512"
    sasl_username: str | None = None
    sasl_password: SecretStr | None = None
    ssl_ca: Path | None = None
    ssl_certificate: Path | None = None
    ssl_key: Path | None = None
    ssl_key_password: SecretStr | None = None
    replicas: int | None = None
    create_time: bool = False
    request_timeout_ms: int = 30_000

    def client_arguments(self) -> dict[str, Any]:
        """What every aiokafka client takes. It holds the password in clear: for passing on, not for keeping."""
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
            arguments["sasl_plain_password"] = self.sasl_password.get_secret_value()
        return arguments

    def _ssl_context(self) -> SSLContext:
        from aiokafka.helpers import create_ssl_context  # noqa: PLC0415 - see the module's docstring

        context: SSLContext = create_ssl_context(
            cafile=self.ssl_ca,
            certfile=self.ssl_certificate,
            keyfile=self.ssl_key,
            password=self.ssl_key_password.get_secret_value() if self.ssl_key_password is not None else None,
        )
        return context
