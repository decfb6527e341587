"""A running server admits only authenticated clients: logins, secrets, protected mode, TLS."""

from __future__ import annotations

import json
import socket
import ssl
from contextlib import closing
from pathlib import Path

import pytest
import trustme

from tests.real.oracle import Connection, ErrorReply, MapReply, SimpleString, request
from tests.real.process import ServerError
from tests.resp.secured import NOAUTH, OK, PASSWORD, WRONGPASS, Secured, config

# ---------------------------------------------------------------------- logging in


def test_nobody_gets_in_without_a_password(secured: Secured) -> None:
    """Reads, writes and looks at the server are refused, a wrong password too, and the connection stays open."""
    with closing(secured.connect()) as client:
        commands = (["GET", "a"], ["SET", "a", "1"], ["PING"], ["INFO"], ["MULTI"], ["SUBSCRIBE", "c"], ["ACL", "LIST"])

        assert [client.call(*command) for command in commands] == [NOAUTH] * len(commands)
        assert [
            client.call("AUTH", "wrong"),
            client.call("AUTH", "filed", "wrong"),
            client.call("AUTH", "no", "no"),
        ] == [WRONGPASS] * 3
        assert client.call("GET", "a") == NOAUTH
        assert [client.call("AUTH", PASSWORD), client.call("ACL", "WHOAMI")] == [OK, b"default"]


def test_a_user_of_the_file_gets_in(secured: Secured) -> None:
    """With AUTH or HELLO; a failed login leaves a client who it was; RESET makes it nobody again."""
    with closing(secured.connect()) as client:
        assert client.call("HELLO", "3").text.startswith(b"NOAUTH HELLO must be called with the client already")
        assert client.call("HELLO", "3", "AUTH", "filed", "wrong") == WRONGPASS
        assert isinstance(client.call("HELLO", "3", "AUTH", "filed", "filed"), MapReply)
        assert [client.call("AUTH", "wrong"), client.call("ACL", "WHOAMI")] == [WRONGPASS, b"filed"]
        assert [client.call("RESET"), client.call("GET", "a")] == [SimpleString(b"RESET"), NOAUTH]


def test_auth_without_a_password_to_ask_for_is_an_error(tmp_path: Path) -> None:
    """Redis' texts, for a server whose default user has none; a name with any password is the default user then."""
    with Secured(tmp_path) as server, closing(server.connect()) as client:
        assert [client.call("AUTH", "x"), client.call("AUTH", "a", "b", "c"), client.call("AUTH", "default", "x")] == [
            ErrorReply(
                b"ERR AUTH <password> called without any password configured for the default user. "
                b"Are you sure your configuration is correct?"
            ),
            ErrorReply(b"ERR syntax error"),
            OK,
        ]


def test_requirepass_can_be_changed_while_the_server_runs(tmp_path: Path) -> None:
    """New clients need it at once, those that are in stay in; empty takes it away; CONFIG GET does not show it."""
    with Secured(tmp_path) as server, closing(server.connect()) as first:
        before = first.call("GET", "a")
        first.call("CONFIG", "SET", "requirepass", "canary-set-live")
        with closing(server.connect()) as second:
            refused = second.call("GET", "a")
            let_in = second.call("AUTH", "canary-set-live")
        stays = first.call("GET", "a")
        shown = first.call("CONFIG", "GET", "requirepass")
        first.call("CONFIG", "SET", "requirepass", "")
        with closing(server.connect()) as third:
            open_again = third.call("GET", "a")

    assert (before, refused, let_in, stays, open_again) == (None, NOAUTH, OK, None, None)
    assert b"canary" not in shown[1]


@pytest.mark.parametrize("name", ["requirepass", "protected-mode", "aclfile", "tls-auth-clients", "bind"])
def test_nobody_can_believe_to_have_closed_a_door_that_is_open(tmp_path: Path, name: str) -> None:
    """`redis.config` takes no parameter that has a setting of its own: the server does not start, and says why."""
    server = Secured(tmp_path, CONFIG=json.dumps({name: "canary"}))

    with pytest.raises(ServerError, match=f"redis.config: {name} cannot be set there") as refused:
        server.__enter__()

    assert "canary" not in str(refused.value)


# ---------------------------------------------------------------------- secrets


def test_no_password_is_shown_anywhere(secured: Secured) -> None:
    """Not in the log of the process, MONITOR, SLOWLOG, CONFIG, INFO, CLIENT LIST, ACL LOG and LIST, nor an error."""
    canaries = (b"canary-of-the-default-user", b"canary-of-a-user", b"canary-gone-wrong")
    with (
        closing(secured.admin()) as admin,
        closing(secured.admin()) as monitor,
        config(secured, "slowlog-log-slower-than", "0"),
    ):
        monitor.call("MONITOR")
        with closing(secured.connect()) as client:
            replies = client.pipeline(
                [
                    *(["AUTH", "canary-gone-wrong"], ["AUTH", "default", "canary-gone-wrong"], ["AUTH", PASSWORD]),
                    *(["HELLO", "3", "AUTH", "default", PASSWORD], ["ACL", "SETUSER", "u", "on", ">canary-of-a-user"]),
                    *(
                        ["AUTH", "u", "canary-of-a-user"],
                        ["AUTH", PASSWORD],
                        ["ACL", "SETUSER", "u", "#canary-gone-wrong"],
                    ),
                    *(
                        ["CONFIG", "SET", "requirepass", PASSWORD],
                        ["HELLO", "3", "AUTH", "default", "canary-gone-wrong"],
                    ),
                ]
            )
        admin.call("PING", "the end")
        seen = b""
        while b"the end" not in seen:
            seen += monitor._socket.recv(65536)
        looks = (["SLOWLOG", "GET", "-1"], ["CONFIG", "GET", "*"], ["INFO", "everything"], ["CLIENT", "LIST"])
        shown = [admin.call(*look) for look in (*looks, ["ACL", "LOG"], ["ACL", "LIST"], ["LATENCY", "LATEST"])]

    everything = seen + repr(shown).encode() + secured.log.read_bytes() + repr(replies[:7]).encode()
    assert [canary for canary in canaries if canary in everything] == []


# ---------------------------------------------------------------------- protected mode


EVERYWHERE = "0.0.0.0"  # noqa: S104 - what these tests are about


def own_address() -> str:
    """An address of this machine that is not the loopback's."""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as probe:
        probe.connect(("198.51.100.1", 9))  # nothing is sent
        address: str = probe.getsockname()[0]
    return address


def first_words(address: tuple[str, int]) -> bytes:
    """What the server says to a new client, or to its PING."""
    with closing(socket.create_connection(address, timeout=30)) as client:
        client.sendall(b"PING\r\n")
        said = b""
        while not said.endswith(b"\r\n"):
            said += client.recv(65536) or b"closed\r\n"
    return said


def test_without_a_password_only_this_machine_gets_in(tmp_path: Path, oracle: Connection) -> None:
    """Another machine is told DENIED and closed, until there is a password, or protected mode is off."""
    (tmp_path / "open").mkdir()
    with Secured(tmp_path, host=EVERYWHERE) as server, closing(server.connect()) as here:
        outside = (own_address(), server.port)
        denied, inside = first_words(outside), here.call("PING")
        here.call("CONFIG", "SET", "requirepass", "x")
        with_password = first_words(outside)
    with Secured(tmp_path / "open", host=EVERYWHERE, PROTECTED="false") as server:
        unprotected = first_words((own_address(), server.port))

    assert denied.startswith(b"-DENIED Running in protected mode because protected mode is enabled and no password")
    assert (inside, with_password, unprotected) == (
        SimpleString(b"PONG"),
        b"-NOAUTH Authentication required.\r\n",
        b"+PONG\r\n",
    )


# ---------------------------------------------------------------------- TLS


def tls_ping(server: Secured, context: ssl.SSLContext) -> bytes:
    """What AUTH and PING are answered over TLS, or that the server closes."""
    said = b""
    try:
        with (
            closing(socket.create_connection(("127.0.0.1", server.tls_port), timeout=30)) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as client,
        ):
            client.sendall(request(["AUTH", PASSWORD]) + request(["PING"]))
            while not said.endswith(b"+PONG\r\n"):
                part = client.recv(4096)
                if not part:
                    return said + b"closed"
                said += part
    except (ssl.SSLError, ConnectionResetError, BrokenPipeError):
        return said + b"closed"
    return said


def client_context(trusted: trustme.CA, signed_by: trustme.CA | None) -> ssl.SSLContext:
    """A client that trusts one authority and has a certificate of another, or none."""
    context = ssl.create_default_context()
    trusted.configure_trust(context)
    if signed_by is not None:
        signed_by.issue_cert("client").configure_cert(context)
    return context


def test_a_client_with_a_certificate_is_served_over_tls(secured: Secured, authority: trustme.CA) -> None:
    """The certificate opens the door, the password makes it a user."""
    assert tls_ping(secured, client_context(authority, authority)) == b"+OK\r\n+PONG\r\n"


def test_clients_without_a_good_certificate_are_not_served(secured: Secured, authority: trustme.CA) -> None:
    """None, one of another authority, and plain text on the TLS port; the server goes on."""
    for signed_by in (None, trustme.CA()):
        assert tls_ping(secured, client_context(authority, signed_by)) == b"closed"
    with closing(socket.create_connection(("127.0.0.1", secured.tls_port), timeout=30)) as plain:
        plain.sendall(request(["AUTH", PASSWORD]))
        assert b"OK" not in plain.recv(100)

    assert tls_ping(secured, client_context(authority, authority)) == b"+OK\r\n+PONG\r\n"


def test_a_client_that_never_shakes_hands_is_closed(secured: Secured) -> None:
    """On the TLS port silence is ended by the handshake's time limit, on the plain one by the login's."""
    for port in (secured.tls_port, secured.port):
        with closing(socket.create_connection(("127.0.0.1", port), timeout=30)) as silent:
            assert silent.recv(1) == b""
