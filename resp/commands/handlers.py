"""The type of a server command's handler, and the decorator that registers it.

    @server_command("CLIENT SETNAME connection-name", group="connection", since="2.6.9", container=True)
    def client_setname(client: OwnClient, args: list[bytes]) -> Reply: ...

The type of a handler's first parameter says what it may touch of the client that has sent the command: a small
protocol, or nothing (`object`). What it may touch of the server stands in `Client[...]`. The type checker sees at the
decorator that a session has all of it. A handler that hands the session on as a whole takes a `Session`.

`container`: the usage line's first two words are the name, and `CLIENT HELP` lists them all. Arity comes from the usage
line, as in `engine.commands.registry`. A handler may be a coroutine function; then the later commands of its connection
wait.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, Required, TypedDict, TypeVar, Unpack

from engine.commands.key_access import parse_access
from engine.commands.registry import FindDatabases, Of
from engine.commands.usage import KeyPlaces, arity, key_places, parse
from engine.values.numbers import parse_int
from engine.values.replies import Reply
from resp.catalog.server_registry import AsEvent, FindChannels, FindInner, FindKeys, Redact, ServerSpec, register

if TYPE_CHECKING:
    from resp.clients.session import Session

Handler = Callable[["Session", list[bytes]], Reply | Coroutine[Any, Any, Reply]]
"""Takes the client that has sent the command, and the arguments."""

ServerT_co = TypeVar("ServerT_co", covariant=True)


class Client(Protocol[ServerT_co]):
    """A client of which nothing is asked but its server."""

    @property
    def server(self) -> ServerT_co:
        """What all clients share."""
        ...


class Facts(TypedDict, total=False):
    """Attributes of `ServerSpec` that a command's decorator may give beside its usage line."""

    group: Required[str]
    since: Required[str]
    of: Of
    complexity: str
    flags: tuple[str, ...]
    categories: tuple[str, ...]
    tips: tuple[str, ...]
    immediate: bool
    queued: bool
    large_reply: bool
    like_write: bool
    while_subscribed: bool
    shown_late: bool
    channels: FindChannels
    databases: FindDatabases
    redact: Redact
    keys: FindKeys
    as_event: AsEvent
    appends: bool
    inner: FindInner


def server_command(
    usage: str, *, container: bool = False, access: str = "", **facts: Unpack[Facts]
) -> Callable[[Handler], Handler]:
    """Register the decorated function under the usage line's first word, or first two of a container.

    Args:
        usage: see `engine.commands.usage`.
        container: the first two words are the name.
        access: what is done to the keys, see `engine.commands.key_access`; empty when it has none.
        facts: see `ServerSpec`. The keys are those of the usage line, unless `keys` finds others.

    Raises:
        ValueError: it has keys and does not say what is done to them, or the name is taken.
    """
    words = usage.split(" ", maxsplit=2 if container else 1)
    name = "|".join(words[:2]) if container else words[0]
    rest = words[2 if container else 1 :]
    line = parse(rest[0] if rest else "")
    least, most = arity(line)
    if access and "keys" not in facts:
        facts["keys"] = _keys_by(key_places(line))
    if "keys" in facts and not access:
        message = f"{name} has keys and does not say what is done to them (`access`)"
        raise ValueError(message)

    def decorate(handler: Handler) -> Handler:
        spec = ServerSpec(
            name=name.encode(),
            handler=handler,
            usage=usage,
            arguments_min=least,
            arguments_max=most,
            container=container,
            access=parse_access(access) if access else (),
            **facts,
        )
        register(spec)
        return handler

    return decorate


def _keys_by(places: KeyPlaces) -> FindKeys:
    """Finds the keys at these places."""
    first, step, count_at = places.first_key, places.key_step, places.key_count
    if first < 0:
        message = "access to keys is said, and the usage line has none"
        raise ValueError(message)
    if count_at >= 0:
        return partial(_counted_keys, count_at)
    end = places.keys_end or None
    return lambda args: args[first:end:step]


def _counted_keys(count_at: int, args: list[bytes]) -> list[bytes]:
    """The keys behind their number; none where that cannot be read: the handler says why."""
    first = count_at + 1
    count = parse_int(args[count_at]) if len(args) >= first else None
    return args[first : first + count] if count is not None and 0 < count <= len(args) - first else []
