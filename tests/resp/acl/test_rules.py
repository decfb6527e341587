"""ACL rules, held against the oracle: the same words give the same users, and the same error texts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import resp.commands  # noqa: F401 - rules name commands
from engine.errors import CommandError
from engine.values.replies import Map
from resp.acl import Acl
from tests.real.oracle import Connection, ErrorReply, SimpleString

NAME = b"held-against"

# Each list is a history of one user: every step is one ACL SETUSER, and what it leaves is compared after each.
HISTORIES: dict[str, list[str | list[str]]] = {
    "on and off": ["on", "off", "ON", "", "zzz", ["on", "zzz"], "reset"],
    "passwords": [
        *([">a", "<a", ">b"], "<zz", "#zz", "!zz", "#" + "a" * 64, "!" + "b" * 64, "#" + "A" * 64),
        *([">b", ">b"], "!" + "a" * 64, "nopass", ">pp", "resetpass", ">", "<", ">a b", ["nopass", ">x"]),
    ],
    "commands": [
        *("+get", "+foo", "-foo", "+GET", "-get", "+get", "allcommands", "-get", "+get", "nocommands"),
        *("+", "-", "+|get", "+get)", "+@all ", "-@all", "+@All", "-@ALL", ["+get", "-get", "+set"]),
    ],
    "categories": [
        *("+@read", "+@foo", "-@foo", "+@", "+@al", ["-@write", "+@write"], ["+@READ", "-@read"]),
        *(["+@all", "-@dangerous"], ["+@all", "-@dangerous", "+flushall", "-get"], ["+@all", "+@read", "-@read"]),
    ],
    "subcommands": [
        *("+acl|list", "+acl|zz", "+acl|list|x", "-acl|list", "+acl", ["-acl|list", "+acl|whoami"]),
        *("-acl|list|x", "+ACL|LIST", "-acl", "+acl|", "-acl|"),
    ],
    "first arguments": [
        *("+select|0", "+select|1", "-select|0", "+get|foo", ["+set|a", "+set|b", "+set|a"], "+Set|AbC"),
        *("+get|", "-get|", "+select", ["+select|0", "-@connection"], "-select"),
    ],
    "keys": [
        *("~a*", "~b", "~a*", "allkeys", "~x", "resetkeys", ["%R~a", "%W~b", "%RW~c"], "%~x", "%X~a"),
        *("%R", "%RWR~x", "%", "%*", "%rw~a", "%WR~q", ["%R~z", "%W~z"], "%RW~*", "~after", "~"),
        *("~a b", "%R~a b", "~*", "%R~x", ["resetkeys", "%R~*", "~c"], "~\x01", "%R~a~b", "%Rx", "%RW"),
    ],
    "channels": [
        *("&a", ["&a", "&b"], "allchannels", "&b", ["resetchannels", "&a"], "&a b", "&*", "&*", "&"),
        *(["resetchannels", "&"], "&a&b"),
    ],
    "databases": [
        *("db=1", "alldbs", "resetdbs", "db=1,2", "db=3,1,2,1", "db=5", "db=1,,2", "db=1,", "db=-1"),
        *("db=+1", "db= 1", "db=16", "DB=2", "db=x", "db=", "db=99", "db=2147483647", "db=2147483648"),
        *("db=1 ", "db=,1", "resetdb"),
    ],
    "selectors": [
        *("(+get ~x)", ["(+get", "~y)"], "clearselectors", "(+foo)", ["(", "+get", ")"], "(+get", ["(+get ~x", "a)"]),
        *("()", "( )", "(on)", "(>x)", "((+get))", "(+get (x))", "(~a)x", "(db=1  +@read)", ["reset", "(~a)"]),
        *("(%R~q &c allkeys)", "(reset)", ["(+get", "on"], ["clearselectors", "(+select|0 -@connection)"]),
    ],
    "all or nothing": [["on", ">secret", "+get", "zzz"], ["+get", "~a", "+foo"], ["nopass", "(+foo)"]],
    "texts of errors": ["a\0b", "a\nb", "a\r\nb", "\xff", "+\xff", "+@\xff"],
}  # fmt: skip


@contextmanager
def user_of(oracle: Connection) -> Iterator[None]:
    """The oracle is the session's: no user stays."""
    try:
        yield
    finally:
        oracle.call("ACL", "DELUSER", NAME)


def flat(reply: Any) -> Any:
    """Our reply as RESP2 shows it: maps flat."""
    if isinstance(reply, Map):
        return [flat(part) for pair in reply for part in pair]
    if isinstance(reply, list):
        return [flat(part) for part in reply]
    return reply


def outcome(acl: Acl, rules: list[bytes]) -> Any:
    """What ACL SETUSER answers."""
    try:
        acl.set_user(NAME, rules)
    except CommandError as error:
        return ErrorReply(error.message.encode(errors="surrogateescape"))
    return SimpleString(b"OK")


@pytest.mark.parametrize("history", HISTORIES.values(), ids=HISTORIES)
def test_a_history_of_setuser_gives_the_same_user_as_the_oracle(
    oracle: Connection, history: list[str | list[str]]
) -> None:
    """Reply, ACL GETUSER and the line of ACL LIST are equal after every step."""
    acl = Acl()
    with user_of(oracle):
        for step in history:
            rules = [rule.encode("latin-1") for rule in ([step] if isinstance(step, str) else step)]

            assert (rules, outcome(acl, rules)) == (rules, oracle.call("ACL", "SETUSER", NAME, *rules))
            user = acl.users.get(NAME)
            details = None if user is None else flat(user.details())
            assert (rules, details) == (rules, oracle.call("ACL", "GETUSER", NAME))
            lines = [line for line in oracle.call("ACL", "LIST") if line.split()[1] == NAME]
            assert ([] if user is None else [user.describe()]) == lines


@pytest.mark.parametrize("name", [b"a b", b"a\0b", b"a\nb", b"a\tb", b"a\x0bb"])
def test_a_user_name_has_no_blanks(oracle: Connection, name: bytes) -> None:
    """White space and NUL in a name are refused with the oracle's text."""
    with pytest.raises(CommandError) as refused:
        Acl().set_user(name, [b"on"])

    assert ErrorReply(refused.value.message.encode()) == oracle.call("ACL", "SETUSER", name, "on")


def test_the_rules_of_a_user_make_the_same_user_again() -> None:
    """What ACL LIST shows can be given to ACL SETUSER: the file depends on it."""
    rules = b"on >pw ~a %R~b &c db=1,2 +@read -get +select|0 (+set ~z -@all) (allkeys +@all -acl|list)".split(b" ")
    acl = Acl()
    user = acl.set_user(b"a", rules)
    _, _, *shown = user.describe().split(b" ")

    again = acl.set_user(b"b", shown)

    assert again.describe() == user.describe().replace(b"user a ", b"user b ")
