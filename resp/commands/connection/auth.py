"""AUTH, and the part of HELLO that logs in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.errors import SYNTAX, CommandError
from engine.values.replies import OK, Reply
from resp.acl import WRONG_PASSWORD, redaction
from resp.acl.users import DEFAULT_NAME
from resp.clients.authorization import note_refusal
from resp.commands.handlers import server_command

if TYPE_CHECKING:
    from resp.clients.session import Session

_NOT_SET_UP: Final = (
    "ERR AUTH <password> called without any password configured for the default user. "
    "Are you sure your configuration is correct?"
)


@server_command(
    "AUTH password-or-username [password]",
    group="connection",
    since="1.0.0",
    complexity="O(passwords of the user)",
    flags=("noscript", "loading", "stale", "fast", "no_auth", "sentinel", "allow_busy", "skip_monitor"),
    categories=("fast", "connection"),
    redact=redaction.all_arguments,
)
def auth(session: Session, args: list[bytes]) -> Reply:
    """Log in as a user, or as the default user with its password."""
    if len(args) > 2:
        raise CommandError(SYNTAX)
    if len(args) == 1 and session.server.acl.default_user.nopass:
        raise CommandError(_NOT_SET_UP)
    name, password = args if len(args) > 1 else (DEFAULT_NAME, args[0])
    log_in(session, name, password, b"AUTH")
    return OK


def log_in(session: Session, name: bytes, password: bytes, command: bytes = b"HELLO") -> None:
    """Let the session be this user from now on.

    Args:
        session: the client.
        name: of the user.
        password: in clear.
        command: which one asks, for `ACL LOG`.

    Raises:
        CommandError: there is no such user, it is off, or the password is wrong; the session stays who it was.
    """
    user = session.server.acl.authenticate(name, password)
    if user is None:
        note_refusal(session, "auth", command, name)
        raise CommandError(WRONG_PASSWORD)
    session.user = user
    session.authenticated = True
    session.refresh()
