"""A server in between that changes what it passes on: the comparison must find out."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

_CHUNK_BYTES = 1 << 16


class Lie(NamedTuple):
    """`said` instead of `truth`: in what clients ask with `asked`, else in what the server replies."""

    truth: bytes
    said: bytes
    asked: bool = False


@contextmanager
def liar(directory: str, path: str, lie: Lie) -> Iterator[str]:
    """The path of a Unix socket in `directory` whose connections are passed on to the server at `path`."""
    own = f"{directory}/liar"
    threads: list[threading.Thread] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(own)
        listener.listen()

        def serve() -> None:
            with suppress(OSError):  # the listener was shut down
                while True:
                    client, _ = listener.accept()
                    server = socket.socket(socket.AF_UNIX)
                    server.connect(path)
                    for ends in ((client, server, lie.asked), (server, client, not lie.asked)):
                        threads.append(threading.Thread(target=_pass_on, args=(*ends, lie)))
                        threads[-1].start()

        serving = threading.Thread(target=serve)
        serving.start()
        yield own
        listener.shutdown(socket.SHUT_RDWR)
        serving.join()
        for thread in threads:
            thread.join()


def _pass_on(source: socket.socket, target: socket.socket, lies: bool, lie: Lie) -> None:
    with source, suppress(OSError):
        while data := source.recv(_CHUNK_BYTES):
            target.sendall(data.replace(lie.truth, lie.said) if lies else data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
