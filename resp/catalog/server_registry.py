"""The registry of server commands, which never reach the engine. `resp.commands` fills it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from engine.commands.key_access import Access
from engine.commands.registry import FindDatabases, Of, first_paragraph, release_of
from engine.errors import CommandError
from engine.values.replies import Reply

Handler = Callable[[Any, list[bytes]], Reply | Coroutine[Any, Any, Reply]]
"""Takes the client and the arguments. What it may touch of the client, `resp.commands` says and checks."""


class Channels(NamedTuple):
    """Channels, or patterns of them, that a command names."""

    names: list[bytes]
    are_patterns: bool = False


FindKeys = Callable[[list[bytes]], list[bytes]]
FindInner = Callable[[list[bytes]], list[bytes]]
Redact = Callable[[list[Any]], list[Any]]
FindChannels = Callable[[list[bytes]], Channels]
AsEvent = Callable[[list[bytes]], tuple[list[bytes], Callable[[Reply], Reply]]]
"""Arguments -> a command of the engine, and what makes its reply that of the server's command."""


@dataclass(frozen=True, slots=True, kw_only=True)
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
        of, since, tips, large_reply, like_write: as `engine.commands.registry.Spec` has them.
        keys: the keys among its arguments; None: it has none.
        access: what is done to the keys, for each place in the usage line where keys stand; empty: it has none.
        channels: the channels among its arguments; None: it has none.
        databases: the arguments that name databases; None: none does.
        redact: the arguments as MONITOR and SLOWLOG may show them; None: as they are.
        while_subscribed: a RESP2 client that listens to something may send it.
        shown_late: MONITOR shows it behind what it does.
        as_event: inside MULTI it stands in the event as another command (BLPOP as LMPOP), whose reply is shaped; None:
            it runs on the server.
        appends: it appends an event, whose reply counts as its own.
        inner: the words of the command among its arguments that it runs. That one appends the event, counts by itself,
            and must be allowed as well; None: it runs none.
    """

    name: bytes
    handler: Handler
    usage: str
    arguments_min: int
    arguments_max: int
    container: bool
    access: tuple[Access, ...]
    group: str
    since: str
    of: Of = "redis"
    complexity: str = "O(1)"
    flags: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    tips: tuple[str, ...] = ()
    immediate: bool = False
    queued: bool = True
    large_reply: bool = False
    like_write: bool = False
    while_subscribed: bool = False
    shown_late: bool = False
    channels: FindChannels | None = None
    databases: FindDatabases | None = None
    redact: Redact | None = None
    keys: FindKeys | None = None
    as_event: AsEvent | None = None
    appends: bool = False
    inner: FindInner | None = None

    @property
    def summary(self) -> str:
        """The first paragraph of the handler's docstring."""
        return first_paragraph(self.handler)

    @property
    def release(self) -> str:
        """The release that brought it, as documents show it: `7.0.0` of Redis, `slotlog 1`."""
        return release_of(self.of, self.since)

    @property
    def shown_name(self) -> str:
        """As error texts and statistics have it: `client|setname`."""
        return self.name.decode().lower()


SERVER_SPECS: Final[dict[bytes, ServerSpec]] = {}
"""Every command of the server by its upper-case name, subcommands as `CONTAINER|SUBCOMMAND`."""

CONTAINERS: Final[dict[bytes, list[ServerSpec]]] = {}
"""The subcommands of each container by its upper-case name."""


WAITING: Final[dict[bytes, ServerSpec]] = {}
"""How those of the engine's commands run, by name, that can wait: XREAD and XREADGROUP with BLOCK."""


def register(spec: ServerSpec) -> None:
    """Add a command.

    Raises:
        ValueError: there is one of that name.
    """
    if spec.name in SERVER_SPECS:
        message = f"{spec.name.decode()} is registered twice"
        raise ValueError(message)
    SERVER_SPECS[spec.name] = spec
    if spec.container:
        CONTAINERS.setdefault(spec.name.partition(b"|")[0], []).append(spec)


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
