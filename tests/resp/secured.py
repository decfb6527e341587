"""A `slotlog serve` with a password, users in a file, TLS and limits, for tests of these."""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, Self

import trustme

from tests.real.oracle import Connection, ErrorReply, SimpleString
from tests.real.process import Server, free_ports

PASSWORD: Final = "canary-of-the-default-user"
OK: Final = SimpleString(b"OK")
NOAUTH: Final = ErrorReply(b"NOAUTH Authentication required.")
WRONGPASS: Final = ErrorReply(b"WRONGPASS invalid username-password pair or user is disabled.")
NO_KEY: Final = ErrorReply(b"NOPERM No permissions to access a key")
NO_CHANNEL: Final = ErrorReply(b"NOPERM No permissions to access a channel")
NO_DATABASE: Final = ErrorReply(b"NOPERM No permissions to access database")
HANDSHAKE_S: Final = 2


class Secured:
    """A `slotlog serve` with a password, users in a file, TLS, and settings of a test's own."""

    def __init__(self, directory: Path, *, host: str = "127.0.0.1", **settings: str) -> None:
        self.port, self.tls_port = free_ports(2)
        self.address = ("127.0.0.1", self.port)
        self.log = directory / "server.log"
        self.users = directory / "users.acl"
        self.password = settings.get("PASSWORD", "")
        environment = {
            f"SLOTLOG_REDIS__{name}": value.replace("{tls_port}", str(self.tls_port))
            for name, value in settings.items()
        }
        command = [sys.executable, "-m", "ops.cli", "serve", "--data", str(directory / "data"), "--http", ""]
        command += ["--resp", f"{host}:{self.port}", "--json"]
        self.process = Server("slotlog", command, self.log, self._answers, 60, environment)

    def __enter__(self) -> Self:
        self.process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stop()

    def _answers(self) -> bool:
        """Whether it has opened its state: it listens before, and answers LOADING."""
        with closing(Connection(self.address)) as connection:
            if self.password:
                connection.call("AUTH", self.password)
            reply = connection.call("EXISTS", "nosuch")
            return reply in {0, NOAUTH}

    def rss_bytes(self) -> int:
        """Memory that the process has now."""
        assert self.process._process is not None
        status = Path(f"/proc/{self.process._process.pid}/status").read_text()
        (kib,) = re.findall(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
        return int(kib) * 1024

    def connect(self) -> Connection:
        """A new client, which has said nothing yet."""
        return Connection(self.address)

    def admin(self) -> Connection:
        """A client that may do everything."""
        connection = self.connect()
        if self.password:
            assert connection.call("AUTH", self.password) == OK
        return connection

    def login(self, name: str, *rules: str) -> Connection:
        """A client as a user with these rules."""
        with closing(self.admin()) as admin:
            assert admin.call("ACL", "SETUSER", name, "reset", "on", ">" + name, *rules) == OK
        connection = self.connect()
        assert connection.call("AUTH", name, name) == OK
        return connection


@contextmanager
def fully_secured(directory: Path, authority: trustme.CA) -> Iterator[Secured]:
    """A server with all of it switched on; `authority` has signed its certificate."""
    users, cert, key, ca = (directory / name for name in ("users.acl", "cert.pem", "key.pem", "ca.pem"))
    users.write_text("user filed on >filed ~* +@all -@dangerous\n")
    leaf = authority.issue_cert("localhost")
    leaf.cert_chain_pems[0].write_to_path(cert)
    leaf.private_key_pem.write_to_path(key)
    authority.cert_pem.write_to_path(ca)
    tls = {"TLS": "127.0.0.1:{tls_port}", "TLS_CERT": str(cert), "TLS_KEY": str(key), "TLS_CA": str(ca)}
    with Secured(
        directory, PASSWORD=PASSWORD, ACL_FILE=str(users), HANDSHAKE_SECONDS=str(HANDSHAKE_S), **tls
    ) as server:
        yield server


def closed_silently(client: socket.socket) -> bool:
    """Whether the server closes a client without a word."""
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


@contextmanager
def config(server: Secured, name: str, value: str) -> Iterator[None]:
    """A live setting for the time of a test."""
    with closing(server.admin()) as admin:
        _, before = admin.call("CONFIG", "GET", name)
        assert admin.call("CONFIG", "SET", name, value) == OK
        yield
    with closing(server.admin()) as admin:  # another one: the setting may have closed the first
        assert admin.call("CONFIG", "SET", name, before) == OK
