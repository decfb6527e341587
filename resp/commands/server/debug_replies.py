"""DEBUG PROTOCOL: a reply of each kind, so that clients can test how they read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, Protocol

from engine.errors import CommandError
from engine.values.replies import BigNumber, Map, Reply, Set, Verbatim
from resp.wire.server_replies import Attributed, Push

_WRONG: Final = (
    "ERR Wrong protocol type name. Please use one of the following: "
    "string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false"
)
_REPLIES: Final[Mapping[bytes, Reply]] = {
    b"string": b"Hello World",
    b"integer": 12345,
    b"double": 3.141,
    b"bignum": BigNumber(b"1234567999999999999999999999999999999"),
    b"null": None,
    b"array": [0, 1, 2],
    b"set": Set([0, 1, 2]),
    b"map": Map([(0, False), (1, True), (2, False)]),
    b"attrib": Attributed(Map([(b"key-popularity", [b"key:123", 90])]), b"Some real reply following the attribute"),
    b"push": b"Some real reply following the push reply",
    b"verbatim": Verbatim(b"This is a verbatim\nstring"),
    b"true": True,
    b"false": False,
}


class Debugging(Protocol):
    """A client that is shown replies.

    Attributes:
        protocol: 2 or 3.
    """

    protocol: Literal[2, 3]

    def send(self, reply: Reply) -> None:
        """Send it what is no reply, behind the reply to the command at hand."""


def example(client: Debugging, kind: bytes) -> Reply:
    """A reply of this kind; for `push` a message, which comes behind it, as in Redis since 7.2.

    Raises:
        CommandError: there is no such kind, or RESP2 has none of it.
    """
    kind = kind.lower()
    if kind not in _REPLIES:
        raise CommandError(_WRONG)
    if kind == b"push":
        if client.protocol < 3:
            raise CommandError("ERR RESP2 is not supported by this command")
        client.send(Push([b"server-cpu-usage", 42]))
    return _REPLIES[kind]
