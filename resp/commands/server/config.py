"""CONFIG: reads and changes the server's parameters. Source: https://valkey.io/commands/config-get/."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from engine.errors import CommandError
from engine.values.replies import OK, Map, Reply
from resp.acl import redaction
from resp.commands.handlers import Client, server_command
from resp.settings.config import config_set

if TYPE_CHECKING:
    from resp.catalog.plans import Plans
    from resp.settings.config import Config
    from resp.statistics.stats import Stats

_FLAGS: Final = ("admin", "noscript", "loading", "stale")
_CATEGORIES: Final = ("admin", "slow", "dangerous")


class Parameters(Protocol):
    """The parameters of a server, and what CONFIG RESETSTAT resets."""

    config: Config
    stats: Stats
    plans: Plans


@server_command(
    "CONFIG GET parameter [parameter ...]",
    group="server",
    since="2.0.0",
    complexity="O(parameters)",
    flags=_FLAGS,
    categories=_CATEGORIES,
    immediate=True,
    container=True,
)
def config_get(client: Client[Parameters], args: list[bytes]) -> Reply:
    """Return the parameters that match these names or glob patterns, with their values."""
    found = client.server.config.matching(args)
    return Map([(name.encode(), value.encode(errors="surrogateescape")) for name, value in found])


@server_command(
    "CONFIG SET parameter value [parameter value ...]",
    group="server",
    since="2.0.0",
    complexity="O(parameters named)",
    flags=_FLAGS,
    categories=_CATEGORIES,
    container=True,
    redact=redaction.secret_parameters,
)
def config_set_(client: Client[Parameters], args: list[bytes]) -> Reply:
    """Change parameters, all of them or none, until the process ends."""
    config_set(client.server.config, args)
    return OK


@server_command(
    "CONFIG RESETSTAT",
    group="server",
    since="2.0.0",
    complexity="O(commands)",
    flags=_FLAGS,
    categories=_CATEGORIES,
    container=True,
)
def config_resetstat(client: Client[Parameters], args: list[bytes]) -> Reply:
    """Reset the counters of INFO."""
    client.server.stats.reset()
    client.server.plans.reset()
    return OK


@server_command(
    "CONFIG REWRITE",
    group="server",
    since="2.8.0",
    flags=_FLAGS,
    categories=_CATEGORIES,
    immediate=True,
    container=True,
)
def config_rewrite(client: object, args: list[bytes]) -> Reply:
    """Refused: slotlog does not write its settings. Put lasting changes there."""
    raise CommandError("ERR The server is running without a config file")
