"""The ACL commands. Source: https://valkey.io/topics/acl/."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from engine.commands.options import read_integer
from engine.errors import CommandError
from engine.values.replies import OK, Reply
from resp.acl import AclFileError, redaction
from resp.acl.accounts import NO_FILE
from resp.acl.file import read_users, write_users
from resp.acl.users import User
from resp.catalog.categories import CATEGORIES, categories_of, command_names
from resp.catalog.plans import CommandKind, Plan
from resp.commands.handlers import Client, server_command
from resp.wire.server_replies import NO_REPLY
from slotlog.shared.errors import wrong_arity

if TYPE_CHECKING:
    from resp.acl import Acl
    from resp.catalog.plans import Plans

_FLAGS: Final = ("noscript", "loading", "stale")
_ADMIN_FLAGS: Final = ("admin", *_FLAGS)
_ADMIN: Final = ("admin", "slow", "dangerous")
_SLOW: Final = ("slow",)

_LOG_ENTRIES: Final = 10
_PASSWORD_BITS: Final = 256
_PASSWORD_BITS_MAX: Final = 4096
_BITS_PER_DIGIT: Final = 4
_BITS_OUT_OF_RANGE: Final = (
    "ERR ACL GENPASS argument must be the number of bits for the output password, "
    f"a positive number up to {_PASSWORD_BITS_MAX}"
)
_NOT_SAVED: Final = "ERR There was an error trying to save the ACLs. Please check the server logs for more information"

logger = structlog.get_logger(__name__)


class UsersClient(Protocol):
    """A client whose user may change, or be deleted.

    Attributes:
        channels, patterns, shard_channels: the names that it listens to.
    """

    user: User
    channels: dict[bytes, None]
    patterns: dict[bytes, None]
    shard_channels: dict[bytes, None]

    def answer(self, reply: Reply) -> None:
        """Send it a reply to the command at hand."""
        ...

    def close(self, reason: str) -> None:
        """Close the connection after what was answered is sent."""
        ...


class Accounts(Protocol):
    """The users of a server.

    Attributes:
        plans: every command by name.
        wall_ms: the wall clock, as of late.
    """

    acl: Acl
    plans: Plans
    wall_ms: int

    @property
    def sessions(self) -> Mapping[int, UsersClient]:
        """Connected clients."""
        ...

    def refresh(self) -> None:
        """A user's rights changed: find out anew which commands may take the short way."""
        ...


class AclClient(UsersClient, Client[Accounts], Protocol):
    """A client that may change users.

    Attributes:
        db: the database that it has chosen.
    """

    db: int


@server_command(
    "ACL CAT [category]",
    group="server",
    since="6.0.0",
    complexity="O(commands)",
    flags=_FLAGS,
    categories=_SLOW,
    container=True,
)
def acl_cat(client: object, args: list[bytes]) -> Reply:
    """List all commands that belong to a category, or all command categories when no category is specified."""
    _at_most_one(args, "CAT")
    if not args:
        return [category.encode() for category in CATEGORIES]
    category = args[0].lower().decode(errors="surrogateescape")
    if category not in CATEGORIES:
        raise CommandError(f"ERR Unknown category '{_text(args[0])}'")
    return [name.lower() for name in command_names() if category in categories_of(name)]


@server_command(
    "ACL DELUSER username [username ...]",
    group="server",
    since="6.0.0",
    complexity="O(users named)",
    flags=_ADMIN_FLAGS,
    categories=_ADMIN,
    container=True,
    redact=redaction.all_arguments,
)
def acl_deluser(client: AclClient, args: list[bytes]) -> Reply:
    """Delete users, and close their connections."""
    gone = client.server.acl.delete_users(args)
    return _settled(client, gone, len(gone))


@server_command(
    "ACL DRYRUN username command [arg ...]",
    group="server",
    since="7.0.0",
    flags=_ADMIN_FLAGS,
    categories=_ADMIN,
    container=True,
)
def acl_dryrun(client: AclClient, args: list[bytes]) -> Reply:
    """Check whether the user may run the command, without running it."""
    user = client.server.acl.users.get(args[0])
    if user is None:
        raise CommandError(f"ERR User '{_text(args[0])}' not found")
    command = args[1:]
    plan = client.server.plans.find(command)
    if plan is None or (plan.kind is CommandKind.CONTAINER and len(command) > 1):
        raise CommandError(f"ERR Command '{_text(command[0])}' not found")
    given = _arguments_of(plan, command)
    if plan.kind is CommandKind.CONTAINER or not plan.arguments_min <= len(given) <= plan.arguments_max:
        raise CommandError(wrong_arity(plan.shown))
    denial = user.denial(plan.name, given, client.db)
    return OK if denial is None else denial.explanation(user.name)


@server_command("ACL GENPASS [bits]", group="server", since="6.0.0", flags=_FLAGS, categories=_SLOW, container=True)
def acl_genpass(client: object, args: list[bytes]) -> Reply:
    """Generate a secure 256-bit user password; the argument can be used to specify a different size."""
    _at_most_one(args, "GENPASS")
    bits = read_integer(args[0]) if args else _PASSWORD_BITS
    if not 0 < bits <= _PASSWORD_BITS_MAX:
        raise CommandError(_BITS_OUT_OF_RANGE)
    digits = (bits + _BITS_PER_DIGIT - 1) // _BITS_PER_DIGIT
    return secrets.token_hex((digits + 1) // 2)[:digits].encode()


@server_command(
    "ACL GETUSER username",
    group="server",
    since="6.0.0",
    complexity="O(rules of the user)",
    flags=_ADMIN_FLAGS,
    categories=_ADMIN,
    container=True,
    redact=redaction.all_arguments,
)
def acl_getuser(client: Client[Accounts], args: list[bytes]) -> Reply:
    """Get the user's details."""
    user = client.server.acl.users.get(args[0])
    return None if user is None else user.details()


@server_command(
    "ACL LIST",
    group="server",
    since="6.0.0",
    complexity="O(rules of all users)",
    flags=_ADMIN_FLAGS,
    categories=_ADMIN,
    container=True,
)
def acl_list(client: Client[Accounts], args: list[bytes]) -> Reply:
    """Show users details in config file format."""
    return [user.describe() for user in client.server.acl.sorted_users()]


@server_command(
    "ACL LOAD",
    group="server",
    since="6.0.0",
    complexity="O(rules of all users)",
    flags=_ADMIN_FLAGS,
    categories=_ADMIN,
    container=True,
)
async def acl_load(client: AclClient, args: list[bytes]) -> Reply:
    """Reload users from the ACL file. If a line of it is wrong, nothing changes."""
    server = client.server
    if server.acl.path is None:
        raise CommandError(NO_FILE)
    try:
        users = await asyncio.to_thread(read_users, server.acl.path)
    except AclFileError as error:
        raise CommandError(f"ERR {error}") from error
    return _settled(client, server.acl.replace(users), OK)


@server_command(
    "ACL LOG [count|RESET]",
    group="server",
    since="6.0.0",
    complexity="O(entries)",
    flags=_ADMIN_FLAGS,
    categories=_ADMIN,
    container=True,
)
def acl_log(client: Client[Accounts], args: list[bytes]) -> Reply:
    """Return the newest refusals, or clear the log of them."""
    _at_most_one(args, "LOG")
    log = client.server.acl.log
    if args and args[0].upper() == b"RESET":
        log.reset()
        return OK
    count = read_integer(args[0]) if args else _LOG_ENTRIES
    return log.newest(count, client.server.wall_ms)


@server_command(
    "ACL SAVE",
    group="server",
    since="6.0.0",
    complexity="O(rules of all users)",
    flags=_ADMIN_FLAGS,
    categories=_ADMIN,
    container=True,
)
async def acl_save(client: Client[Accounts], args: list[bytes]) -> Reply:
    """Save the current users to the ACL file."""
    acl = client.server.acl
    if acl.path is None:
        raise CommandError(NO_FILE)
    try:
        await asyncio.to_thread(write_users, acl.path, _copies(acl))
    except OSError as error:
        logger.error("acl_file_not_saved", error=error.strerror)  # noqa: TRY400 - the trace tells nothing more
        raise CommandError(_NOT_SAVED) from error
    return OK


@server_command(
    "ACL SETUSER username [rule ...]",
    group="server",
    since="6.0.0",
    complexity="O(rules)",
    flags=_ADMIN_FLAGS,
    categories=_ADMIN,
    container=True,
    redact=redaction.all_arguments,
)
def acl_setuser(client: AclClient, args: list[bytes]) -> Reply:
    """Create or modify a user with these rules; the user's open connections follow at once."""
    client.server.acl.set_user(args[0], args[1:])
    return _settled(client, [], OK)


@server_command(
    "ACL USERS",
    group="server",
    since="6.0.0",
    complexity="O(users)",
    flags=_ADMIN_FLAGS,
    categories=_ADMIN,
    container=True,
)
def acl_users(client: Client[Accounts], args: list[bytes]) -> Reply:
    """List all the registered usernames."""
    return [user.name for user in client.server.acl.sorted_users()]


@server_command("ACL WHOAMI", group="server", since="6.0.0", flags=_FLAGS, categories=_SLOW, container=True)
def acl_whoami(client: UsersClient, args: list[bytes]) -> Reply:
    """Return the current connection username."""
    return client.user.name


def _settled(client: AclClient, gone: list[User], reply: Reply) -> Reply:
    """Bring open sessions in line with the users as they are now, and then answer."""
    server = client.server
    own_end = _end_of(client, gone)
    for other in list(server.sessions.values()):
        end = _end_of(other, gone)
        if end and other is not client:
            other.close(end)
    server.refresh()
    if not own_end:
        return reply
    client.answer(reply)
    client.close(own_end)
    return NO_REPLY


def _end_of(client: UsersClient, gone: list[User]) -> str:
    """Why the session has to end; empty when it may go on."""
    if client.user in gone:
        return "its user was deleted"
    return "" if _may_listen(client) else "its user may no longer listen to a channel"


def _may_listen(client: UsersClient) -> bool:
    allows = client.user.allows_channel
    channels = (*client.channels, *client.shard_channels)
    return all(allows(channel, is_pattern=False) for channel in channels) and all(
        allows(pattern, is_pattern=True) for pattern in client.patterns
    )


def _copies(acl: Acl) -> list[User]:
    """The users as they are now, for a thread to write down while they may change."""
    return [user.with_rules(()) for user in acl.sorted_users()]


def _arguments_of(plan: Plan, command: list[bytes]) -> list[bytes]:
    """What follows the name, or the subcommand."""
    return command[2:] if b"|" in plan.name else command[1:]


def _at_most_one(args: list[bytes], subcommand: str) -> None:
    if len(args) > 1:
        raise CommandError(f"ERR unknown subcommand or wrong number of arguments for '{subcommand}'. Try ACL HELP.")


def _text(raw: bytes) -> str:
    return raw.partition(b"\0")[0].decode(errors="surrogateescape")
