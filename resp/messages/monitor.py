"""MONITOR: clients that see every command as it arrives.

    +1339518083.107412 [0 127.0.0.1:60866] "keys" "*"
    +1339518083.107412 [0 lua] "get" "a"                    by a script

Passwords are never shown. Arguments are values of the data or say where they are, so only a user who may read every key
sees them; any other sees the command's name alone.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal, Protocol

from engine.values.numbers import parse_int
from engine.values.replies import Reply, Status
from resp.acl import redacted
from slotlog.clock import now_us
from slotlog.shared.limits import DATABASES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from resp.acl import User
    from resp.catalog.multi_queue import Step
    from resp.catalog.plans import Plan

HIDDEN: Final = b"(hidden)"
"""What stands for the arguments that a user may not see."""

NO_KEYS_WHILE_MONITORING: Final = "ERR Replica can't interact with the keyspace"
"""What a monitoring client is told that reads, writes or publishes: Redis counts it among the replicas."""

_ON_KEYS: Final = frozenset({"readonly", "write"})

_UNSAFE: Final = re.compile(rb"[^ !#-\[\]-~]")
_NAMED: Final = {ord(b"\n"): b"\\n", ord(b"\r"): b"\\r", ord(b"\t"): b"\\t", 7: b"\\a", 8: b"\\b"}
_ESCAPES: Final = {
    bytes([code]): b"\\" + bytes([code]) if code in b'"\\' else _NAMED.get(code, b"\\x%02x" % code)
    for code in range(256)
}


class Monitor(Protocol):
    """A client that may send MONITOR, or whose commands are shown.

    Attributes:
        address: its host and port.
        monitoring: whether it is shown every command.
        reply_mode, muted: what CLIENT REPLY has asked for, and whether the reply to the command at hand is left out.
        user: who is logged in.
    """

    address: bytes
    monitoring: bool
    reply_mode: Literal["on", "off", "skip"]
    muted: bool
    user: User

    def send(self, reply: Reply) -> None:
        """Send it a line, which answers no command."""
        ...


class Monitors:
    """The clients that sent MONITOR.

    Args:
        changed: called when the first one has come, or the last one has gone.

    Attributes:
        any: whether there is one; nothing here is called while there is none.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self.any = False
        self._changed = changed
        self._sessions: dict[Monitor, None] = {}

    def add(self, session: Monitor) -> None:
        """Show this client every command from now on."""
        session.monitoring = True
        self._sessions[session] = None
        self._count()

    def forget(self, session: Monitor) -> None:
        """Show it nothing more."""
        session.monitoring = False
        self._sessions.pop(session, None)
        self._count()

    def feed(self, session: Monitor, db: int, command: list[bytes]) -> None:
        """Show everybody that `session` has sent `command`."""
        self._show(session, session.address, db, command)

    def feed_script(self, db: int, command: list[bytes]) -> None:
        """Show everybody that a script has run `command`."""
        self._show(None, b"lua", db, command)

    def _show(self, session: Monitor | None, origin: bytes, db: int, command: list[bytes]) -> None:
        now_s, us = divmod(now_us(), 1_000_000)
        prefix = b"%d.%06d [%d %b] " % (now_s, us, db, origin)
        whole = Status(prefix + b" ".join(map(quoted, redacted(command))))
        name_only = Status(prefix + b" ".join(map(quoted, without_values(command))))
        for monitor in list(self._sessions):
            if not leaves_out(monitor, own=monitor is session):
                monitor.send(whole if sees_values(monitor.user) else name_only)

    def feed_all(self, session: Monitor, db: int, steps: Iterable[Step], command: list[bytes]) -> None:
        """Show everybody the commands of a transaction that has run, and then what has made it run."""
        for step in steps:
            if step.plan.name == b"SELECT":
                db = read_db(step.args[0], db)
            if is_shown(step.plan):
                self.feed(session, db, step.command)
        self.feed(session, db, command)

    def _count(self) -> None:
        before, self.any = self.any, bool(self._sessions)
        if self.any != before:
            self._changed()


def leaves_out(monitor: Monitor, *, own: bool) -> bool:
    """Whether CLIENT REPLY leaves out a line, as if it were a reply: of an `own` command those whose replies it does.

    Between CLIENT REPLY SKIP and the next command it leaves out what others send.
    """
    return monitor.reply_mode == "off" or (monitor.muted if own else monitor.reply_mode == "skip")


def read_db(text: bytes, db: int) -> int:
    """The database that SELECT has chosen with `text`; `db` if it was refused."""
    number = parse_int(text)
    return number if number is not None and 0 <= number < DATABASES else db


def is_shown(plan: Plan) -> bool:
    """Whether MONITOR shows the command; what administers the server it does not."""
    return plan.server is None or "admin" not in plan.server.flags


def is_shown_late(plan: Plan) -> bool:
    """Whether it is shown behind what it does: EXEC behind its commands, RESET to those who still monitor.

    SELECT is shown in the database that it has chosen, CLIENT REPLY where replies come behind it.
    """
    return plan.server is not None and plan.server.shown_late


def allowed_while_monitoring(plan: Plan) -> bool:
    """Whether a monitoring client may send this command."""
    if plan.server is None:
        return plan.spec is None
    return not plan.server.like_write and _ON_KEYS.isdisjoint(plan.server.flags)


def sees_values(user: User) -> bool:
    """Whether the user may read every key of every database, and so see what others send."""
    return user.unrestricted or (user.root.all_keys and user.root.databases is None)


def without_values(command: list[bytes]) -> list[bytes]:
    """The command's name, and that there are arguments."""
    return [command[0], HIDDEN] if len(command) > 1 else command


def quoted(text: bytes) -> bytes:
    """The bytes in quotes, with escapes for whatever is not printable ASCII, as Redis shows them."""
    return b'"' + _UNSAFE.sub(lambda found: _ESCAPES[found[0]], text) + b'"'
