"""Protected mode: without a password, a server accepts clients of its own machine only."""

from __future__ import annotations

from typing import Final

from resp.acl.users import User

DENIED: Final = (
    "DENIED Running in protected mode because protected mode is enabled and no password is set for the default user. "
    "In this mode connections are only accepted from the loopback interface. If you want to connect from external "
    "computers, you may adopt one of the following solutions: 1) Just disable protected mode sending the command "
    "'CONFIG SET protected-mode no' from the loopback interface by connecting from the same host the server is "
    "running, however MAKE SURE it's not publicly accessible from internet if you do so. Use CONFIG REWRITE to make "
    "this change permanent. 2) Alternatively you can just disable the protected mode by editing the configuration "
    "file, and setting the protected mode option to 'no', and then restarting the server. 3) If you started the "
    "server manually just for testing, restart it with the '--protected-mode no' option. 4) Set up an authentication "
    "password for the default user. NOTE: You only need to do one of the above things in order for the server to "
    "start accepting connections from the outside."
)


def may_connect(default_user: User, *, is_loopback: bool, is_protected: bool) -> str | None:
    """The error for a client that may not even connect; None when it may."""
    if is_protected and default_user.nopass and not is_loopback:
        return DENIED
    return None
