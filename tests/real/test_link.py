"""The links of the tests delay, hold and cut as they say."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from time import monotonic

import pytest

from tests.real.link import Link
from tests.real.process import free_ports


@pytest.fixture
def link() -> Iterator[Link]:
    """A link to a server that answers everything with itself, one connection at a time."""
    port, to_port = free_ports(2)
    with socket.create_server(("127.0.0.1", to_port)) as listener, Link(port, to_port) as link:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection, suppress(OSError):
                    while data := connection.recv(100):
                        connection.sendall(data)

        serving = threading.Thread(target=serve)
        serving.start()
        yield link
        listener.shutdown(socket.SHUT_RDWR)
        link.stop_connections()
        serving.join()


def _call(link: Link) -> socket.socket:
    return socket.create_connection(("127.0.0.1", link.port), timeout=20)


def test_data_arrives_late(link: Link) -> None:
    """A delay counts in both directions."""
    link.delay_seconds = 0.1
    with _call(link) as client:
        began = monotonic()
        client.sendall(b"hello")
        answer = client.recv(100)
    assert (b"hello", True) == (answer, monotonic() - began >= 0.2)


@pytest.mark.parametrize(("to_client", "answer"), [(True, b"hell"), (False, b"")])
def test_a_frame_is_cut(link: Link, to_client: bool, answer: bytes) -> None:
    """Of one piece all but its last byte arrives, and the connection ends; the next one is whole."""
    link.cut_in_frame(1, to_client=to_client)
    with _call(link) as client:
        client.sendall(b"hello")
        found = b""
        with suppress(ConnectionResetError):
            while data := client.recv(100):
                found += data
    with _call(link) as client:
        client.sendall(b"again")
        again = client.recv(100)
    assert (1, b"again", True) == (link.cut, again, found.startswith(answer) and found != b"hello")


def test_a_half_open_link_delivers_late(link: Link) -> None:
    """Nothing comes while the link is half-open, and nobody is told; what was sent arrives once it is mended."""
    with _call(link) as client:
        client.sendall(b"a")
        before = client.recv(100)
        link.half_open()
        client.sendall(b"b")
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(100)
        client.settimeout(20)
        link.mend()
        assert (b"a", b"b", 1) == (before, client.recv(100), link.held)
