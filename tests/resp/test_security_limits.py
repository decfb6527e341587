"""Limits on one client of a running server: each at its limit, and one past it."""

from __future__ import annotations

import socket
from contextlib import ExitStack, closing

import pytest

from tests.real.oracle import SimpleString, request
from tests.resp.secured import NOAUTH, PASSWORD, Secured, closed_silently, config


def said_to(server: Secured, data: bytes, *, login: bool = False) -> bytes:
    """All that the server answers until it closes, or until the ECHO that is sent behind the data is answered."""
    said = bytearray()
    with closing(socket.create_connection(server.address, timeout=30)) as client:
        if login:
            client.sendall(request(["AUTH", PASSWORD]))
            client.recv(5)
        try:
            client.sendall(data + request(["ECHO", "the end"]))
            while b"the end" not in said[-20:] and said[-100:].count(b"-NOAUTH") < 2:
                part = client.recv(1 << 20)
                if not part:
                    return bytes(said) + b"closed"
                said += part
        except (ConnectionResetError, BrokenPipeError):
            return bytes(said) + b"closed"
    return bytes(said)


def test_who_has_not_logged_in_may_send_little(secured: Secured) -> None:
    """10 arguments, and 16 KiB in one, get their NOAUTH; one more, and one byte more, end the connection."""
    ten, eleven = ([b"MGET", *[b"a"] * count] for count in (9, 10))
    largest, larger = ([b"GET", b"a" * length] for length in (16384, 16385))
    noauth = b"-NOAUTH Authentication required.\r\n"

    assert [said_to(secured, request(command)) for command in (ten, eleven, largest, larger)] == [
        noauth * 2,
        b"-ERR Protocol error: unauthenticated multibulk length\r\nclosed",
        noauth * 2,
        b"-ERR Protocol error: unauthenticated bulk length\r\nclosed",
    ]


def test_no_more_clients_than_maxclients(secured: Secured) -> None:
    """The last one gets in, the next is told and closed, and gets in when one has gone."""
    with closing(secured.admin()) as admin:
        there = len(admin.call("CLIENT", "LIST").splitlines())
        with config(secured, "maxclients", str(there + 2)):  # one more is the setting's own client
            last = secured.connect()
            at_the_limit = last.call("PING")
            with closing(secured.connect()) as one_past_it:
                past_it = one_past_it._replies.read()
            last.close()
            while len(admin.call("CLIENT", "LIST").splitlines()) > there + 1:
                pass
            with closing(secured.connect()) as later:
                again = later.call("PING")

    assert (at_the_limit, past_it, again) == (NOAUTH, b"-ERR max number of clients reached\r\n", NOAUTH)


def test_a_command_under_way_may_fill_the_query_buffer_and_no_more(secured: Secured) -> None:
    """1 MiB of arguments of an unfinished command is kept; much more ends the connection."""
    limit = 1024 * 1024
    fits = request(["ECHO", b"x" * (limit - 1000)])
    too_large = request(["MSET", *[b"x" * 100_000] * 30])
    with config(secured, "client-query-buffer-limit", "1mb"):
        at_the_limit = said_to(secured, fits, login=True)
        past_it = said_to(secured, too_large, login=True)

    assert at_the_limit.endswith(b"the end\r\n")
    assert past_it == b"closed"


def test_an_argument_may_be_as_long_as_the_setting_says(secured: Secured) -> None:
    """`proto-max-bulk-len` bytes are one argument; one more is a protocol error."""
    limit = 1024 * 1024
    with config(secured, "proto-max-bulk-len", str(limit)):
        at_the_limit = said_to(secured, request(["ECHO", b"x" * limit]), login=True)
        past_it = said_to(secured, b"*2\r\n$4\r\nECHO\r\n$%d\r\n" % (limit + 1), login=True)

    assert at_the_limit.endswith(b"the end\r\n")
    assert past_it == b"-ERR Protocol error: invalid bulk length\r\nclosed"


def test_a_command_that_no_event_can_hold_costs_no_memory(secured: Secured) -> None:
    """64 MiB, in one argument or in nine, are passed over as they come: an error each, and the connection goes on."""
    refused = b"-ERR an event may have 8388608 bytes; nothing was written\r\n"
    with closing(secured.admin()) as admin:
        in_one = request(["SET", "k", b"x" * (64 << 20)])
        before = secured.rss_bytes()
        said = [said_to(secured, in_one, login=True)]
        grown = secured.rss_bytes() - before
        key = b"k" * (9 << 20)
        said.append(said_to(secured, request(["MSET", *[b"x" * (8 << 20)] * 8]), login=True))
        said += [said_to(secured, request([name, key]), login=True) for name in ("GET", "NOSUCH", "ECHO")]
        there = admin.call("EXISTS", "k")
        admin.call("MULTI")
        in_multi = [admin.call("GET", key), admin.call("EXEC")]

    assert [refused + b"$7\r\nthe end\r\n"] * 5 == said
    assert grown < 16 << 20
    assert 0 == there
    assert b"-ERR an event" == b"-" + in_multi[0].text[:12]
    assert in_multi[1].text.startswith(b"EXECABORT")


def test_an_inline_command_has_64_kib(secured: Secured) -> None:
    """That many bytes without an end are waited for; one more is a protocol error."""
    limit = 64 * 1024
    with closing(secured.admin()) as client, closing(secured.admin()) as other:
        client._socket.sendall(b"x" * limit)
        other.call("PING")  # a turn of the server's loop has passed
        client._socket.sendall(b"\n")
        at_the_limit = client._read()

    assert at_the_limit.text.startswith(b"ERR unknown command 'xxx")
    assert said_to(secured, b"x" * (limit + 1), login=True) == b"-ERR Protocol error: too big inline request\r\nclosed"


def test_a_client_that_does_not_read_gets_nothing_more_to_read(secured: Secured) -> None:
    """Its commands wait, so that 400 MiB of replies cost no memory; when it reads, it gets them all."""
    wanted = request(["GET", "large"]) * 400
    with closing(secured.admin()) as admin, closing(secured.admin()) as deaf:
        admin.call("SET", "large", b"x" * (1 << 20))
        before = secured.rss_bytes()
        deaf._socket.sendall(wanted)
        served = [admin.call("PING") for _ in range(100)]
        grown = secured.rss_bytes() - before
        replies = [deaf._read() for _ in range(400)]

    assert served == [SimpleString(b"PONG")] * 100
    assert grown < 100 << 20
    assert replies == [b"x" * (1 << 20)] * 400


def test_replies_that_wait_for_a_client_have_a_limit(secured: Secured) -> None:
    """One reply below it arrives; one far above it, which no kernel takes off the server's hands, ends the client."""
    with closing(secured.admin()) as admin, config(secured, "client-output-buffer-limit", "normal 16mb 0 0"):
        admin.call("SET", "large", b"x" * (1 << 20))
        fits = said_to(secured, request(["MGET", *["large"] * 15]), login=True)
        past_it = said_to(secured, request(["MGET", *["large"] * 100]), login=True)
        others = admin.call("PING")

    assert fits.endswith(b"the end\r\n")
    assert past_it.endswith(b"closed")
    assert others == SimpleString(b"PONG")


def test_who_has_not_logged_in_must_read_what_is_said(secured: Secured) -> None:
    """Some errors may wait for it; a stranger who sends megabytes of commands and never reads is closed."""
    with closing(secured.connect()) as polite, closing(secured.connect()) as deaf:
        errors = polite.pipeline([["GET", "a"]] * 100)
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            deaf._socket.sendall(b"GET a\r\n" * 4_000_000)

    assert errors == [NOAUTH] * 100


def test_a_thousand_half_sent_commands_hurt_nobody_else(secured: Secured) -> None:
    """Their connections cost less than 100 MiB, other clients are served, and the handshake's limit ends them."""
    half = b"*2\r\n$3\r\nGET\r\n$16384\r\n" + b"x" * 16000
    with closing(secured.admin()) as admin, ExitStack() as stack:
        before = secured.rss_bytes()
        clients = [stack.enter_context(closing(socket.create_connection(secured.address))) for _ in range(1000)]
        for client in clients:
            client.settimeout(30)
            client.sendall(half)
        served = admin.call("PING")
        grown = secured.rss_bytes() - before

        assert served == SimpleString(b"PONG")
        assert grown < 100 * 1024 * 1024
        assert all(closed_silently(client) for client in clients)


def test_an_idle_client_is_closed_and_a_listener_is_not(secured: Secured) -> None:
    """`timeout` counts silence; who listens, or waits for an element, is silent by its nature."""
    with closing(secured.admin()) as idle, closing(secured.admin()) as listener, closing(secured.admin()) as blocked:
        listener.call("SUBSCRIBE", "c")
        blocked._socket.sendall(request(["BLPOP", "nothing-comes", "0"]))
        with config(secured, "timeout", "1"):
            assert closed_silently(idle._socket)
        assert listener.call("PING") == [b"pong", b""]
        with closing(secured.admin()) as admin:
            admin.call("RPUSH", "nothing-comes", "but this")
        assert blocked._read() == [b"nothing-comes", b"but this"]


def test_a_browser_that_is_tricked_into_it_gets_no_answer(secured: Secured) -> None:
    """POST, and a Host header: closed without a word, and the command behind it is not run."""
    with closing(secured.admin()) as admin:
        admin.call("DEL", "tricked")
        for line in (b"POST / HTTP/1.1\r\n", b"Host: 127.0.0.1\r\n"):
            assert said_to(secured, line + b"SET tricked 1\r\n") == b"closed"
        assert admin.call("EXISTS", "tricked") == 0
