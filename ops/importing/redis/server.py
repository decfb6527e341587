"""Asks a running server for its keys, with redis-py; says what is wrong with it in words."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, TypeAlias, cast
from urllib.parse import urlsplit

from hiredis import pack_command
from redis.backoff import NoBackoff
from redis.connection import ConnectionPool
from redis.exceptions import AuthenticationError, BusyLoadingError, NoPermissionError, RedisError, ResponseError
from redis.retry import Retry

from ops.importing.source import SourceError, public_part
from slotlog.shared.errors import InvariantError

PASSWORD_VARIABLE: Final = "REDISCLI_AUTH"  # noqa: S105 - the name of a variable, that of redis-cli
_CONNECT_SECONDS: Final = 10.0
_REPLY_SECONDS: Final = 120.0
_SCAN_COUNT: Final = 500
_ADVICE: Final = {
    "CERTIFICATE_VERIFY_FAILED": "; name the file of the authority that signed its certificate: ?ssl_ca_certs=FILE"
    " after the port",
    "WRONG_VERSION_NUMBER": "; it does not speak TLS at this port: write redis:// in place of rediss://",
    "Connection refused": "; is it running, and is this its port?",
    "Connection closed by server": "; if it speaks TLS at this port, write rediss:// in place of redis://",
}
_RUN_ID: Final = re.compile(rb"^run_id:([0-9a-f]+)", re.MULTILINE)
_KEYSPACE: Final = re.compile(rb"^db([0-9]+):keys=([0-9]+)", re.MULTILINE)


Words: TypeAlias = tuple[str | bytes | int, ...]
"""A command."""

_packed: Final[Callable[[Words], bytes]] = cast("Any", pack_command)  # its stub takes commands of one word alone


class WrongTypeError(SourceError):
    """The key has another type than it had."""


class Dumped(NamedTuple):
    """A key as it was at one moment.

    Attributes:
        payload: what DUMP gave; None where there is no such key.
        expire_ms: when it dies, 0 for never.
    """

    payload: bytes | None
    expire_ms: int


class Server:
    """One server; a connection for each database that is asked for.

    Args:
        url: redis://, rediss:// or unix://, as redis-py reads it.

    Attributes:
        label: its URL without user, password and options.
        exact_times: whether it says when a key dies; if not, that comes from PTTL and differs by milliseconds.
        field_times: whether the fields of its hashes may die.

    Raises:
        SourceError: it cannot be reached, wants another password, or is no server that can be imported from.
    """

    def __init__(self, url: str) -> None:
        self.label = public_part(url)
        if "@" in url.partition("?")[2]:
            raise SourceError(f"{self.label} is no URL of a server: write ? as %3F and @ as %40 in what is no address")
        self._url = url
        self._password = os.environ.get(PASSWORD_VARIABLE) or None
        self._connections: dict[int, Any] = {}
        self._awaiting = False
        try:
            self._refuse_cluster()
            self._refuse_replica_alone()
            self.exact_times = self._knows("PEXPIRETIME", "k")
            self.field_times = self._knows("HPEXPIRETIME", "k", "FIELDS", "1", "f")
        except BaseException:
            self.close()
            raise

    def databases(self) -> dict[int, int]:
        """How many keys each database has that has any."""
        found = self.ask(0, [("INFO", "keyspace")])[0]
        return {int(db): int(keys) for db, keys in _KEYSPACE.findall(found)}

    def run_id(self) -> str:
        """Another one after each start of the server; empty where it does not say."""
        found = _RUN_ID.search(self.ask(0, [("INFO", "server")])[0])
        return found[1].decode() if found else ""

    def libraries(self) -> list[tuple[bytes, bytes]]:
        """Name and code of the libraries of functions."""
        if not self._knows("FUNCTION", "LIST"):  # older than functions
            return []
        (found,) = self.ask(0, [("FUNCTION", "LIST", "WITHCODE")])
        listed = [dict(zip(library[::2], library[1::2], strict=True)) for library in found]
        return [(library[b"library_name"], library[b"library_code"]) for library in listed]

    def scan(self, db: int, cursor: int) -> tuple[int, list[bytes]]:
        """The next cursor and keys, none twice; the cursor is 0 behind the last ones."""
        ((behind, names),) = self.ask(db, [("SCAN", cursor, "COUNT", _SCAN_COUNT)])
        return int(behind), list(dict.fromkeys(names))

    def sizes(self, db: int, names: Sequence[bytes]) -> list[int]:
        """About how many bytes of the server's memory each key takes; 0 for one that is gone."""
        return [size or 0 for size in self.ask(db, [("MEMORY", "USAGE", name) for name in names])]

    def begin_dumps(self, db: int, names: Sequence[bytes]) -> Callable[[], tuple[int, list[Dumped]]]:
        """Ask for keys, and do not wait: the server may make the answer while the caller does something else.

        Returns:
            Waits for the answer: the server's time in ms, and all of these keys as they were at that time. It has to be
            called before anything else is asked.
        """
        life = "PEXPIRETIME" if self.exact_times else "PTTL"
        words = [words for name in names for words in (("DUMP", name), (life, name))]
        commands = [("MULTI",), ("TIME",), *words, ("EXEC",)]
        self._send(db, commands)
        return lambda: self._dumped(self._receive(db, len(commands))[-1])

    def _dumped(self, answer: list[Any]) -> tuple[int, list[Dumped]]:
        (seconds, microseconds), *replies = answer
        now_ms = int(seconds) * 1000 + int(microseconds) // 1000
        start_ms = 0 if self.exact_times else now_ms
        pairs = zip(replies[::2], replies[1::2], strict=True)
        return now_ms, [Dumped(payload, start_ms + life_ms if life_ms >= 0 else 0) for payload, life_ms in pairs]

    def type(self, db: int, name: bytes) -> str:
        """What TYPE says; that of a module has a name of its own."""
        (kind,) = self.ask(db, [("TYPE", name)])
        return str(kind.decode())

    def expire_ms(self, db: int, name: bytes) -> int:
        """When a key dies, 0 for never."""
        life = "PEXPIRETIME" if self.exact_times else "PTTL"
        (seconds, microseconds), life_ms = self.ask(db, [("TIME",), (life, name)])
        start_ms = 0 if self.exact_times else int(seconds) * 1000 + int(microseconds) // 1000
        return int(start_ms + life_ms) if life_ms >= 0 else 0

    def ask(self, db: int, commands: Sequence[Words]) -> list[Any]:
        """The replies to commands that go out together; an error among those of an EXEC is raised as well."""
        self._send(db, commands)
        return self._receive(db, len(commands))

    def _send(self, db: int, commands: Sequence[Words]) -> None:
        if self._awaiting:
            raise InvariantError("an import asks a server while the answer before is not read yet")
        with self.errors():
            connection = self._connections.get(db) or self._connect(db)
            connection.send_packed_command([b"".join(map(_packed, commands))])
        self._awaiting = True

    def _receive(self, db: int, count: int) -> list[Any]:
        connection = self._connections[db]
        replies: list[Any] = []
        failure: Exception | None = None
        with self.errors():
            for _ in range(count):
                try:
                    replies.append(connection.read_response(disable_decoding=True))
                except ResponseError as error:  # the replies behind it are read, or the next command would get them
                    failure = failure or error
            self._awaiting = False
            last = replies[-1] if replies and isinstance(replies[-1], list) else ()
            failure = failure or next((reply for reply in last if isinstance(reply, RedisError)), None)
            if failure is not None:
                raise failure
        return replies

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.disconnect()

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turn what redis-py raises into sentences."""
        try:
            yield
        except AuthenticationError as error:
            if "required" in str(error):
                raise SourceError(f"{self.label} wants a password: give it in {PASSWORD_VARIABLE}") from error
            raise SourceError(
                f"{self.label} refuses user or password ({error}): give the password in {PASSWORD_VARIABLE}, the user"
                " in the URL, redis://USER@HOST:PORT"
            ) from error
        except NoPermissionError as error:
            raise SourceError(
                f"{self.label} gives this user too few rights ({error}): it needs INFO, SCAN, DUMP, PEXPIRETIME, MEMORY"
                " USAGE and reads of all keys"
            ) from error
        except BusyLoadingError as error:
            raise SourceError(
                f"{self.label} is loading its data: wait until redis-cli PING answers PONG, and run the same command"
                " again"
            ) from error
        except RedisError as error:
            if str(error).startswith("WRONGTYPE"):
                raise WrongTypeError(f"{self.label}: {error}") from error
            what = "refuses a command" if isinstance(error, ResponseError) else "does not answer"
            raise SourceError(f"{self.label} {what}: {str(error).rstrip('.')}{_advice(error)}") from error

    def _connect(self, db: int) -> Any:
        """A new connection; what redis-py says of its own types is too little to check them."""
        given = {} if self._password is None or _has_password(self._url) else {"password": self._password}
        try:
            pool = ConnectionPool.from_url(
                self._url,
                **given,
                protocol=2,
                socket_connect_timeout=_CONNECT_SECONDS,
                socket_timeout=_REPLY_SECONDS,
                retry=Retry(NoBackoff(), 0),
            )
            named = pool.connection_kwargs.get("db")
            pool.connection_kwargs["db"] = db
            connection: Any = pool.make_connection()
        except (ValueError, TypeError):  # the latter for an option that there is not
            raise SourceError(f"{self.label} is no URL of a server: redis://HOST:PORT, options after a ?") from None
        if named is not None:
            raise SourceError(f"{self.label}: its URL names a database: leave that out, and say --db {named}")
        connection.connect()
        self._connections[db] = connection
        return connection

    def _knows(self, *words: str) -> bool:
        try:
            self.ask(0, [words])
        except SourceError as error:
            if "unknown command" in str(error.__cause__).lower():
                return False
            raise
        return True

    def _refuse_cluster(self) -> None:
        if b"cluster_enabled:1" in self.ask(0, [("INFO", "cluster")])[0]:
            raise SourceError(
                f"{self.label} is a node of a Redis Cluster, which is not supported: save an RDB file on each master"
                " (redis-cli --rdb FILE), and import each of them"
            )

    def _refuse_replica_alone(self) -> None:
        """A replica that has not got all keys yet, or misses what its primary was told since."""
        said = self.ask(0, [("INFO", "replication")])[0]
        if b"role:slave" in said and b"master_link_status:up" not in said:
            raise SourceError(
                f"{self.label} is a replica without a link to its primary (master_link_status in INFO): keys may be"
                " missing. Wait until the link is up, or import from the primary. If that is gone for good, make this"
                " one a primary with REPLICAOF NO ONE"
            )


def _advice(error: RedisError) -> str:
    """What to do about a connection that fails; empty where nobody knows."""
    said = str(error)
    return next((advice for text, advice in _ADVICE.items() if text in said), "")


def _has_password(url: str) -> bool:
    try:
        return urlsplit(url).password is not None
    except ValueError:
        return False
