"""The RESP server's settings at its start. `resp.settings.config` has those that change later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

Address = tuple[str, int]
"""Host and port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RespSettings:
    """Addresses, partitions and secrets.

    Attributes:
        address: to listen on; a port of 0 takes a free one.
        tls_address: the same with TLS; None for none.
        tls_cert, tls_key, tls_ca: files in PEM form.
        tls_auth_clients: whether clients must show a certificate: yes, no or optional.
        partitions: of the log; 1 is a standalone Redis.
        own: the partitions of this worker.
        peers: which worker has which partitions, `0-1=host:port,2-3=host:port`; empty: nobody else.
        grouped: a group of workers says again and again which partitions are whose; `own` and `peers` are empty.
        hold_seconds: how long a command waits at most for a partition that moves from one worker of a group to another.
        replica_address: to listen on for clients that take this worker for a replica of what it follows; None: none.
        master_name: by which Sentinel clients ask for the owner of the only partition: that of the group.
        sentinel_address: to listen on for them; None: none.
        announce: the address that other workers' clients are told; None: what `peers` says of `own`, or `address`;
            of an address that stands for all, the port alone.
        password: of the default user; empty for none.
        peer_user, peer_password: with which this worker logs in at the others; an empty password: `password`.
        tls_cluster: whether the addresses in `peers` take TLS alone.
        node_timeout_seconds: after which another worker that does not answer is suspected to fail.
        acl_file: the users; None for none.
        protected: without a password only this machine may connect.
        debug_commands: whether DEBUG is there.
        handshake_seconds: how long a client may take to authenticate where that is needed, and for its TLS handshake.
        config: start values of CONFIG's parameters by name.
    """

    address: Address = ("127.0.0.1", 6379)
    tls_address: Address | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_ca: Path | None = None
    tls_auth_clients: str = "yes"
    partitions: int = 1
    own: tuple[int, ...] = (0,)
    peers: str = ""
    grouped: bool = False
    hold_seconds: float = 0.0
    replica_address: Address | None = None
    master_name: str = ""
    sentinel_address: Address | None = None
    announce: Address | None = None
    password: str = field(default="", repr=False)
    peer_user: str = "default"
    peer_password: str = field(default="", repr=False)
    tls_cluster: bool = False
    node_timeout_seconds: float = 5.0
    acl_file: Path | None = None
    protected: bool = True
    debug_commands: bool = False
    handshake_seconds: float = 10.0
    config: Mapping[str, str] = field(default_factory=dict, repr=False)
