"""The rights of a user match ACL DRYRUN of the oracle."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import resp.commands  # noqa: F401 - fills the registry
from engine.errors import CommandError
from engine.values.replies import OK
from resp.acl import Acl, Denial
from resp.acl.users import User
from resp.catalog.plans import CommandKind, Plans
from tests.real.oracle import Connection, SimpleString

NAME = b"held-against"

USERS: dict[str, str] = {
    "some commands": "+get +@list ~a* %R~b* &c*",
    "more commands": "+get +@list ~a* %R~b* &c* +publish +subscribe +psubscribe +select|0 +client|list",
    "reads and writes": "%R~r* %W~w* +@all -@dangerous +keys +select -lpush (~z* +lpush +lpop) -client|id +acl",
    "one database": "~* &* +@all db=1",
    "this database": "~* &* +@all db=0",
    "no database": "~* &* +@all resetdbs",
    "database before key": "+@all db=1",
    "selectors of databases": "+@all ~* db=1 &a (~b* +get +set) (~* db=0 -@all +lpop)",
    "deeper keys": "~a ~a2 +mget +get (~a +mget ~b ~a3) (+get ~c)",
    "last rule": "+@all -@all +client -client|id +@connection -@slow +client|id",
    "first argument lost": "~* +select|1 -@connection",
    "nothing": "",
    "everything": "~* &* +@all",
    "all but writes": "~* &* +@all -@write",
    "pattern of patterns": "+@all &news.* &a?c",
    "odd patterns": "+@all ~[a-c]* ~x\\*y ~?",
}

COMMANDS = [
    *(
        "get a",
        "get b",
        "get c",
        "get ra",
        "get wa",
        "set a 1",
        "set wa 1",
        "set wa 1 get",
        "set wa 1 nx get",
        "set b 1",
    ),
    *(
        "set wa 1 ifeq x",
        "exists ra",
        "exists wa",
        "exists x",
        "type wa",
        "strlen wa",
        "incr wa",
        "getset wa 1",
        "del wa",
    ),
    *("del wa ra", "getdel wa", "expire wa 1", "ttl ra", "lmove ra wa left left", "lmove b a left left", "lpush za 1"),
    *(
        "lpush wa 1",
        "lpush b 1",
        "lpush x 1",
        "lrange b 0 1",
        "lpop za",
        "lpop wa",
        "lpop x",
        "rpop za",
        "mset wa 1 ra 2",
    ),
    *("mget a a2 q", "mget a b z", "mget z y", "mget a a3 w a2", "mget b a", "lmpop 2 a b left", "zmpop 2 wa ra min"),
    *(
        "publish c x",
        "publish d x",
        "publish news.a x",
        "publish abc x",
        "spublish c x",
        "subscribe c d",
        "subscribe a q",
    ),
    *("psubscribe c*", "psubscribe cc*", "psubscribe news.*", "psubscribe news.a", "ssubscribe c", "ssubscribe d"),
    *(
        "unsubscribe q",
        "punsubscribe q",
        "select 0",
        "select 1",
        "select x",
        "ping",
        "echo x",
        "client id",
        "client list",
    ),
    *(
        "client info",
        "acl whoami",
        "acl list",
        "acl cat",
        "config get x",
        "flushall",
        "flushdb",
        "dbsize",
        "multi",
        "exec",
    ),
    *("watch a", "watch c", "watch ra", "info", "command count", "auth x", "quit", "hello 3", "reset"),
    *("getrange x 0 1", "hset wx f v", "hget rx f", "hlen wx", "zadd wz 1 m", "zrange rz 0 1", "zincrby wz 1 m"),
    *(
        "copy a b",
        "copy a b db 1",
        "copy a b replace DB 1",
        "copy a b db 1 db 0",
        "copy a b db 0 DB 1",
        "copy a b db x",
    ),
    *("move a 0", "move a 1", "swapdb 0 0", "swapdb 0 1"),
    *("get x*y", "get xzy", "get q", "get bb", "get dd", "smembers rs", "sadd ws m", "spop ws", "srem ws m"),
]


def ours(user: User, command: str) -> bytes:
    """What ACL DRYRUN answers for a command that there is."""
    words = command.encode().split()
    name = words[0].upper()
    with_subcommand = name in {b"CLIENT", b"ACL", b"CONFIG", b"COMMAND"}
    name, args = (name + b"|" + words[1].upper(), words[2:]) if with_subcommand else (name, words[1:])
    denial = user.denial(name, args, 0)
    return bytes(OK) if denial is None else denial.explanation(user.name)


def theirs(oracle: Connection, command: str) -> Any:
    """What the oracle answers."""
    reply = oracle.call("ACL", "DRYRUN", NAME, *command.split())
    return reply.text if isinstance(reply, SimpleString) else reply


@pytest.mark.parametrize("rules", USERS.values(), ids=USERS)
def test_a_user_may_do_what_the_oracle_allows_and_nothing_else(oracle: Connection, rules: str) -> None:
    """For each command: allowed, or refused for the same command, key, channel or database."""
    acl = Acl()
    words = [b"on", *rules.encode().split()]
    user = acl.set_user(NAME, words)
    oracle.call("ACL", "SETUSER", NAME, *words)
    try:
        expected = {command: theirs(oracle, command) for command in COMMANDS}
    finally:
        oracle.call("ACL", "DELUSER", NAME)

    actual = {command: ours(user, command) for command in COMMANDS}
    assert {
        command: (actual[command], expected[command]) for command in COMMANDS if actual[command] != expected[command]
    } == {}


def test_each_kind_of_refusal_has_redis_text() -> None:
    """The error replies for a command, a key, a channel and a database, byte for byte."""
    user = Acl().set_user(b"v", b"+get +publish ~a &c db=0".split())

    assert [
        user.check(b"SET", [b"a", b"1"]),
        user.check(b"CONFIG|GET", [b"x"]),
        user.check(b"GET", [b"b"]),
        user.check(b"PUBLISH", [b"d", b"m"]),
        user.check(b"GET", [b"a"], db=1),
        user.check(b"GET", [b"a"]),
    ] == [
        "NOPERM User v has no permissions to run the 'set' command",
        "NOPERM User v has no permissions to run the 'config|get' command",
        "NOPERM No permissions to access a key",
        "NOPERM No permissions to access a channel",
        "NOPERM No permissions to access database",
        None,
    ]


@pytest.mark.parametrize(
    ("rules", "unrestricted"),
    [
        (b"+@all ~* &*", True),
        (b"allcommands allkeys allchannels alldbs", True),
        (b"+@all ~* &* -get +get", True),
        (b"-@all (+@all ~* &*)", True),
        (b"+@all ~* &* -get", False),
        (b"+@all ~* &a", False),
        (b"+@all ~a &*", False),
        (b"+@all ~* &* db=0", False),
        (b"+@read +@write ~* &*", False),
    ],
)
def test_only_a_user_to_whom_all_is_allowed_is_unrestricted(rules: bytes, unrestricted: bool) -> None:
    """The short way past all checks is taken by no user who may not do everything."""
    acl = Acl()

    assert acl.set_user(b"u", rules.split()).unrestricted == unrestricted


def test_a_change_of_rules_reaches_whoever_holds_the_user() -> None:
    """A session's `user` is the same object before and after, and `unrestricted` follows."""
    acl = Acl()
    held = acl.set_user(b"u", [b"+@all", b"~*", b"&*"])

    changed = acl.set_user(b"u", [b"-get"])

    assert changed is held
    assert not held.unrestricted
    assert held.check(b"GET", [b"a"]) == "NOPERM User u has no permissions to run the 'get' command"


def test_a_refused_rule_changes_nothing() -> None:
    """Of several rules the last one is wrong: the user is as before, and a new one is not made."""
    acl = Acl()
    before = acl.set_user(b"u", [b"on", b"+get"]).describe()

    with pytest.raises(CommandError):
        acl.set_user(b"u", [b"off", b"+set", b"zzz"])
    with pytest.raises(CommandError):
        acl.set_user(b"new", [b"on", b"zzz"])

    assert (acl.users[b"u"].describe(), b"new" in acl.users) == (before, False)


@given(data=st.data())
def test_no_arguments_break_a_check(data: st.DataObject) -> None:
    """Whatever follows the name, as long as its number is right: allowed or refused, never another exception."""
    user = Acl().set_user(b"u", [b"+@all", b"~a", b"&a", b"db=0"])
    plans = Plans()
    plan = plans.by_name[data.draw(st.sampled_from(sorted(plans.by_name)))]
    assume(plan.kind is not CommandKind.CONTAINER)  # without one of its subcommands it is no command
    least = plan.arguments_min
    words = st.sampled_from([b"", b"a", b"b", b"0", b"1", b"-1", b"2", b"99999999999999999999", b"GET", b"DB", b"\xff"])
    args = data.draw(st.lists(words, min_size=least, max_size=min(plan.arguments_max, least + 4)))

    assert isinstance(user.denial(plan.name, args, 0), Denial | None)
