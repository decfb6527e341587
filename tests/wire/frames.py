"""Replies as bytes: one frame is one whole reply, an array with all that is in it."""

from __future__ import annotations

import contextlib
import select
import socket
from collections.abc import Sequence
from typing import BinaryIO, Final

CLOSED: Final = b""
"""In place of a frame: the server has closed the connection."""

_BULKS: Final = b"$=!"
_AGGREGATES: Final = b"*~>%"
_TIMEOUT_S: Final = 60


class RawConnection:
    """One blocking connection that sends bytes and gives frames; a reply that never comes is a TimeoutError.

    Args:
        address: path of a Unix socket, or host and port.
    """

    def __init__(self, address: str | tuple[str, int]) -> None:
        self._socket = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
        self._socket.settimeout(_TIMEOUT_S)
        self._socket.connect(address)
        self._replies = self._socket.makefile("rb")
        self.closed = False

    def ask(self, data: bytes, replies: int) -> list[bytes]:
        """Send `data` in one write and read so many frames."""
        with contextlib.suppress(ConnectionError):  # the server has closed, and said so in what is left to read
            self._socket.sendall(data)
        return [self._frame() for _ in range(replies)]

    def drain(self, data: bytes) -> list[bytes]:
        """Send `data`, after which the server closes, and read every frame until then."""
        frames = self.ask(data, 1)
        while frames[-1] != CLOSED:
            frames.append(self._frame())
        return frames

    def has_data(self) -> bool:
        """Whether something has come that was not asked for yet."""
        return bool(select.select([self._socket], [], [], 0)[0])

    def close(self) -> None:
        """Close the connection."""
        self._replies.close()
        self._socket.close()

    def _frame(self) -> bytes:
        if not self.closed:
            try:
                if frame := read_frame(self._replies):
                    return frame
            except ConnectionError:
                pass
            except TimeoutError:
                raise TimeoutError(f"no reply in {_TIMEOUT_S} s") from None
            self.closed = True
        return CLOSED


def read_frame(stream: BinaryIO) -> bytes:
    """The next frame; `CLOSED` when the stream ends instead.

    Raises:
        ConnectionError: it ends within a frame.
    """
    line = stream.readline()
    if not line:
        return CLOSED
    kind, rest = line[:1], line[1:-2]
    if kind in _BULKS and rest[:1] != b"-":
        return line + _exactly(stream, int(rest) + 2)
    if kind in _AGGREGATES and rest[:1] != b"-":
        return line + b"".join(_inner(stream) for _ in range(_elements(kind, rest)))
    if not line.endswith(b"\r\n"):
        raise ConnectionError(f"the stream ends after {line!r}")
    return line


def parts(frame: bytes) -> list[bytes]:
    """The elements of an array, a set or a map (names and values in turn); of anything else none."""
    if frame[:1] not in _AGGREGATES or not frame:
        return []
    at = frame.index(b"\r\n") + 2
    found = []
    for _ in range(_elements(frame[:1], frame[1 : at - 2])):
        end = _end(frame, at)
        found.append(frame[at:end])
        at = end
    return found


def bulk(frame: bytes) -> bytes | None:
    """What a bulk string holds; None for the null one, or another kind of frame."""
    return frame[frame.index(b"\r\n") + 2 : -2] if frame[:1] == b"$" and frame[1:2] != b"-" else None


def array(elements: Sequence[bytes]) -> bytes:
    """An array of these frames."""
    return b"*%d\r\n" % len(elements) + b"".join(elements)


def _end(frame: bytes, at: int) -> int:
    """Where the frame that begins at `at` ends."""
    line_end = frame.index(b"\r\n", at) + 2
    kind, rest = frame[at : at + 1], frame[at + 1 : line_end - 2]
    if kind in _BULKS and rest[:1] != b"-":
        return line_end + int(rest) + 2
    if kind in _AGGREGATES:
        for _ in range(_elements(kind, rest)):
            line_end = _end(frame, line_end)
    return line_end


def _elements(kind: bytes, count: bytes) -> int:
    return max(0, int(count)) * (2 if kind == b"%" else 1)


def _inner(stream: BinaryIO) -> bytes:
    frame = read_frame(stream)
    if not frame:
        raise ConnectionError("the stream ends within an array")
    return frame


def _exactly(stream: BinaryIO, length: int) -> bytes:
    data = stream.read(length)
    if len(data) < length:
        raise ConnectionError("the stream ends within a bulk string")
    return data
