"""Settings of the server for Redis clients."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

from ops.addresses import parse_address


class RedisSettings(BaseModel):
    """Settings of the RESP server."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True, validate_default=True)

    peers: str = Field(default="", description="which worker owns which partitions: 0-1=host:6379,2-3=host:6380")
    announce: str = Field(default="", description="address that clients are told; empty: as in peers, or --resp")
    replica: str = Field(default="", description="address at which a worker of a group is a replica of what it follows")
    sentinel: str = Field(
        default="",
        description="address at which a worker of a group with one partition answers as a Redis Sentinel; empty: none",
    )
    peer_user: str = Field(default="default", description="user name with which a worker logs in to its peers")
    peer_password: SecretStr = Field(default=SecretStr(""), description="password of peer_user; empty: as password")
    node_timeout_seconds: float = Field(
        default=5.0, gt=0, description="seconds without an answer after which a peer counts as possibly failed (fail?)"
    )
    tls_cluster: bool = Field(default=False, description="whether the addresses in peers accept only TLS")
    tls: str = Field(default="", description="address for Redis clients over TLS; empty: none")
    tls_cert: Path | None = Field(default=None, description="PEM file of the server's certificate")
    tls_key: Path | None = Field(default=None, description="PEM file of that certificate's key")
    tls_ca: Path | None = Field(default=None, description="PEM file of the authorities that sign client certificates")
    tls_auth_clients: Literal["yes", "no", "optional"] = Field(
        default="yes", description="whether clients must show a certificate: yes, no or optional"
    )
    password: SecretStr = Field(default=SecretStr(""), description="password of the default user; empty: none")
    acl_file: Path | None = Field(default=None, description="file of users, in the format of Redis' ACL file")
    protected: bool = Field(default=True, description="whether other machines are refused without a password")
    debug_commands: bool = Field(default=False, description="whether clients may use the DEBUG command")
    handshake_seconds: float = Field(default=10.0, gt=0, description="seconds for a TLS handshake, and for the login")
    config: dict[str, str] = Field(
        default_factory=dict, description="start values of CONFIG SET, such as maxclients or notify-keyspace-events"
    )

    @field_validator("announce", "replica", "sentinel", "tls")
    @classmethod
    def _address(cls, value: str) -> str:
        if value:
            parse_address(value)
        return value
