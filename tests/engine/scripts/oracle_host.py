"""A host whose commands a real server runs: a script here and there meet the same data."""

from __future__ import annotations

from typing import Any

from engine.errors import CommandError
from engine.scripts.runtime import ScriptRuntime
from engine.values.replies import Map, Pairs, Reply, Set, Status
from slotlog.shared.doubles import format_double
from tests.engine.scripts.host import run
from tests.real.oracle import Connection, ErrorReply, MapReply, NullArray, SetReply, SimpleString


class OracleHost:
    """Runs the commands of a script on a connection of its own."""

    seed = 0

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def call(self, words: list[bytes]) -> Reply:
        """Run one command there."""
        reply = _reply(self._connection.call(*words))
        if isinstance(reply, CommandError):
            raise reply
        return reply

    def check_acl(self, words: list[bytes]) -> bool:
        """Allow everything."""
        return True

    def log(self, level: int, text: bytes) -> None:
        """Drop a line."""

    def pause(self) -> bytes | None:
        """Go on."""
        return None


def ours(source: str, host: OracleHost, runtime: ScriptRuntime, protocol: int = 2) -> Any:
    """What our runtime makes of a script, in the form in which a connection to the oracle shows it."""
    try:
        return shown(run(source, host, runtime=runtime), protocol)
    except CommandError as error:
        return shown(error, protocol)


def _reply(shown: Any) -> Reply:
    match shown:
        case SimpleString(text):
            return Status(text)
        case ErrorReply(text):
            return CommandError(text.decode(errors="surrogateescape"))
        case NullArray():
            return None
        case MapReply(pairs):
            return Map((_reply(key), _reply(value)) for key, value in pairs)
        case SetReply(members):
            return Set(map(_reply, members))
        case list():
            return [_reply(element) for element in shown]
        case _:
            return shown


def shown(reply: Reply, protocol: int) -> Any:
    """A reply in the form in which a connection to the oracle shows it."""
    match reply:
        case Status():
            return SimpleString(bytes(reply))
        case CommandError():
            return ErrorReply(reply.message.encode(errors="surrogateescape"))
        case bool() if protocol == 2:
            return int(reply)
        case float() if protocol == 2:
            return format_double(reply)
        case Map() | Pairs() if protocol == 2:
            return [shown(part, 2) for pair in reply for part in pair]
        case Map():
            return MapReply([(shown(key, 3), shown(value, 3)) for key, value in reply])
        case Set() if protocol == 3:
            return SetReply([shown(member, 3) for member in reply])
        case list():
            return [shown(element, protocol) for element in reply]
        case bytes():
            return bytes(reply)
        case _:
            return reply
