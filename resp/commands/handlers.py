"""The type of a server command's handler, and the decorator that registers it.

    @server_command("CLIENT SETNAME connection-name", group="connection", since="2.6.9", container=True)
    def client_setname(client: Named, args: list[bytes]) -> Reply: ...

The type of a handler's first parameter says what it may touch of the client that has sent the command: a small
protocol, or nothing (`object`). What it may touch of the server stands in `Client[...]`. The type checker sees at the
decorator that a session has all of it. A handler that hands the session on as a whole takes a `Session`.

`container`: the usage line's first two words are the name, and `CLIENT HELP` lists them all. Arity comes from the usage
line, as in `engine.commands.registry`. A handler may be a coroutine function; then the later commands of its connection
wait.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from engine.commands.usage import arity, parse
from engine.values.replies import Reply
from resp.catalog.server_registry import AsEvent, ServerSpec, register

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


def server_command(
    usage: str,
    *,
    group: str,
    since: str,
    complexity: str = "O(1)",
    flags: tuple[str, ...] = (),
    categories: tuple[str, ...] = (),
    immediate: bool = False,
    queued: bool = True,
    container: bool = False,
    keys: Callable[[list[bytes]], list[bytes]] | None = None,
    as_event: AsEvent | None = None,
) -> Callable[[Handler], Handler]:
    """Register the decorated function under the usage line's first word, or first two of a container."""

    def decorate(handler: Handler) -> Handler:
        words = usage.split(" ", maxsplit=2 if container else 1)
        name = "|".join(words[:2]) if container else words[0]
        rest = words[2 if container else 1 :]
        least, most = arity(parse(rest[0] if rest else ""))
        register(
            ServerSpec(
                name=name.encode(),
                handler=handler,
                usage=usage,
                group=group,
                since=since,
                complexity=complexity,
                arguments_min=least,
                arguments_max=most,
                flags=flags,
                categories=categories,
                immediate=immediate,
                queued=queued,
                container=container,
                keys=keys,
                as_event=as_event,
            )
        )
        return handler

    return decorate
