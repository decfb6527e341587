"""Settings of the connection to Kafka, without the import of aiokafka, which takes 0.1 s."""

from __future__ import annotations

from pathlib import Path
from ssl import SSLContext
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr


class KafkaSettings(BaseModel):
    """Connection, security and topic settings. Secrets are `SecretStr`: no repr, log line or error shows them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    client_id: str = Field(default="slotlog", description="what the broker's own logs and quotas call us")
    group: str = Field(
        default="slotlog",
        description="consumer group of committed positions, for lag tools, and of who owns which partition",
    )
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        default="PLAINTEXT", description="as in Kafka's clients"
    )
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = Field(
        default="SCRAM-SHA-512", description="as in Kafka's clients"
    )
    sasl_username: str | None = Field(default=None, description="user name for SASL")
    sasl_password: SecretStr | None = Field(default=None, description="password for SASL")
    ssl_ca: Path | None = Field(
        default=None, description="PEM file of the authorities to trust; absent: the system's. Host names are checked"
    )
    ssl_certificate: Path | None = Field(default=None, description="PEM file of our own certificate, for mutual TLS")
    ssl_key: Path | None = Field(default=None, description="PEM file of its key")
    ssl_key_password: SecretStr | None = Field(default=None, description="password of that key")
    replicas: int | None = Field(
        default=None, description="of topics that are created; absent: 3, or one per broker where there are fewer"
    )
    create_time: bool = Field(
        default=False,
        description="accept a topic with CreateTime; a producer with a wrong clock can then expire anybody's keys",
    )
    request_timeout_ms: int = Field(
        default=30_000, description="how long one request may take, and an append until it counts as uncertain"
    )

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
