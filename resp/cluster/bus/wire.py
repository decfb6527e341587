"""The protocol between two workers: RESP commands, each answered by one line.

    AUTH user password                                      +OK                  where a password is set
    SLOTLOG PEER-HELLO version topic partitions node run    +OK                  who calls; first of all
    SLOTLOG PEER-BEAT                                       +{"run": …}          how the other one is, as JSON
    SLOTLOG PEER-PUBLISH channel message                    :2                   a message for its clients

An error (`-…`) in answer to the first two ends the link.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from resp.wire.encode import encode2

VERSION: Final = b"1"
"""Of this protocol; a worker with another one is refused."""

_COMMAND: Final = b"SLOTLOG"
BEAT: Final = encode2([_COMMAND, b"PEER-BEAT"])


@dataclass(frozen=True, slots=True)
class Beat:
    """A worker's report on itself.

    Attributes:
        run: 40 hexadecimal digits, new with each start of the process.
        own: its partitions, ascending.
        loading: whether it still applies what was in the log when it started.
        offset: how many offsets of the log are applied, all its partitions together.
        failing: ids of the nodes that do not answer it.
        applied: the offset before which it has applied everything, of each partition that it owns.
        follows: the same of those that it follows, and in which it answers clients.
        opening: those of its partitions in which it does not answer yet.
    """

    run: str
    own: tuple[int, ...]
    loading: bool
    offset: int
    failing: tuple[str, ...]
    applied: Mapping[int, int] = field(default_factory=dict)
    follows: Mapping[int, int] = field(default_factory=dict)
    opening: tuple[int, ...] = ()

    def pack(self) -> bytes:
        """One line of ASCII."""
        return json.dumps(asdict(self)).encode()


def unpack_beat(line: bytes) -> Beat:
    """What `Beat.pack` made.

    Raises:
        ValueError: it is nothing of that kind.
    """
    try:
        fields: dict[str, Any] = json.loads(line)
        own = tuple(map(int, fields["own"]))
        return Beat(
            run=str(fields["run"]),
            own=own,
            loading=bool(fields["loading"]),
            offset=int(fields["offset"]),
            failing=tuple(map(str, fields["failing"])),
            applied=_offsets(fields.get("applied", {})),
            follows=_offsets(fields.get("follows", {})),
            opening=tuple(map(int, fields.get("opening", own if fields["loading"] else ()))),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not what a worker says of itself: {error!r}") from error


def _offsets(told: Mapping[str, Any]) -> dict[int, int]:
    return {int(partition): int(offset) for partition, offset in told.items()}


def auth(user: str, password: str) -> bytes:
    """Log in."""
    return encode2([b"AUTH", user.encode(), password.encode()])


def hello(topic: str, partitions: int, node_id: str, run: str) -> bytes:
    """Say who calls."""
    return encode2(
        [_COMMAND, b"PEER-HELLO", VERSION, topic.encode(), b"%d" % partitions, node_id.encode(), run.encode()]
    )


def publish(channel: bytes, message: bytes) -> bytes:
    """Hand a message over."""
    return encode2([_COMMAND, b"PEER-PUBLISH", channel, message])
