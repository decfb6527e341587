"""The registry of server commands, which never reach the engine.

    @server_command("CLIENT SETNAME connection-name", group="connection", since="2.6.9", container=True)
    def client_setname(session, args): ...

`container`: the usage line's first two words are the name, and `CLIENT HELP` lists them all. Arity comes from the usage
line, as in `engine.commands.registry`. A handler may be a coroutine function; then the later commands of its connection
wait.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from engine.commands.usage import arity, parse
from engine.errors import CommandError
from engine.values.replies import Reply

if TYPE_CHECKING:
    from resp.clients.session import Session

Handler = Callable[["Session", list[bytes]], Reply | Coroutine[Any, Any, Reply]]

AsEvent = Callable[[list[bytes]], tuple[list[bytes], Callable[[Reply], Reply]]]
"""Arguments -> a command of the engine, and what makes its reply that of the server's command."""


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """One command of the server.

    Attributes:
        name: upper case; `CLIENT|SETNAME` for a subcommand.
        usage: its usage line.
        complexity: as `engine.commands.registry.Spec` has it; what is handed on to the engine counts by itself.
        arguments_min, arguments_max: how many arguments may follow the name (of a subcommand: both words).
        flags, categories: as `COMMAND INFO` and `ACL CAT` give them, without `@`.
        immediate: needs nothing of its connection's earlier commands: answered in order, but run before they are done.
        queued: inside MULTI it is queued as a command on data is; False: it runs at once (EXEC, DISCARD, …).
        container: it is a subcommand.
        keys: the keys among its arguments; None: it has none.
        as_event: inside MULTI it stands in the event as another command (BLPOP as LMPOP), whose reply is shaped; None:
            it runs on the server.
    """

    name: bytes
    handler: Handler
    usage: str
    group: str
    since: str
    complexity: str
    arguments_min: int
    arguments_max: int
    flags: tuple[str, ...]
    categories: tuple[str, ...]
    immediate: bool
    queued: bool
    container: bool
    keys: Callable[[list[bytes]], list[bytes]] | None = None
    as_event: AsEvent | None = None

    @property
    def summary(self) -> str:
        """The first paragraph of the handler's docstring."""
        return (self.handler.__doc__ or "").strip().split("\n\n", maxsplit=1)[0].strip()

    @property
    def shown_name(self) -> str:
        """As error texts and statistics have it: `client|setname`."""
        return self.name.decode().lower()


SERVER_SPECS: Final[dict[bytes, ServerSpec]] = {}
"""Every command of the server by its upper-case name, subcommands as `CONTAINER|SUBCOMMAND`."""

CONTAINERS: Final[dict[bytes, list[ServerSpec]]] = {}
"""The subcommands of each container by its upper-case name."""


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

    def register(handler: Handler) -> Handler:
        words = usage.split(" ", maxsplit=2 if container else 1)
        name = "|".join(words[:2]) if container else words[0]
        rest = words[2 if container else 1 :]
        least, most = arity(parse(rest[0] if rest else ""))
        spec = ServerSpec(
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
        if spec.name in SERVER_SPECS:
            message = f"{name} is registered twice"
            raise ValueError(message)
        SERVER_SPECS[spec.name] = spec
        if container:
            CONTAINERS.setdefault(words[0].encode(), []).append(spec)
        return handler

    return register


def find_subcommand(container: bytes, args: list[bytes]) -> ServerSpec:
    """The subcommand that `args` begin with.

    Raises:
        CommandError: Redis' text for a missing or unknown one.
    """
    if not args:
        raise CommandError(f"ERR wrong number of arguments for '{container.decode().lower()}' command")
    spec = SERVER_SPECS.get(container + b"|" + args[0].upper())
    if spec is None:
        shown = args[0][:128].decode(errors="surrogateescape")
        raise CommandError(f"ERR unknown subcommand '{shown}'. Try {container.decode()} HELP.")
    return spec
