"""The registry reads keys and numbers of arguments from usage lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

import engine.commands  # noqa: F401 - fills the registry
from engine.commands.key_access import parse_access
from engine.commands.registry import SPECS, command, keys_of


@pytest.mark.parametrize(
    ("line", "keys"),
    [
        ("GET a", "a"),
        ("SET a 1 NX", "a"),
        ("DEL a b c", "a b c"),
        ("MSET a 1 b 2", "a b"),
        ("LMOVE a b LEFT RIGHT", "a b"),
        ("RPOPLPUSH a b", "a b"),
        ("LMPOP 2 a b LEFT COUNT 2", "a b"),
        ("ZMPOP 1 a MIN", "a"),
        ("MSETEX 2 a 1 b 2 EX 9", "a b"),
        ("GEORADIUS a 1 2 3 M STORE b STOREDIST c", "a c"),
        ("GEORADIUSBYMEMBER a STORE 3 M COUNT 1 ANY store b", "a b"),
        ("GEORADIUS_RO a 1 2 3 M", "a"),
        ("PFMERGE a b c", "a b c"),
        ("FLUSHALL", ""),
    ],
)
def test_keys_are_found(line: str, keys: str) -> None:
    """One key, all of them, every second, the two that a command moves between, or as many as `numkeys` says."""
    name, *args = line.encode().split()

    assert keys.encode().split() == keys_of(name, args)


@pytest.mark.parametrize("count", [b"0", b"-1", b"3", b"x", b"99999999999999999999", b"9223372036854775807"])
def test_a_count_of_keys_that_cannot_be_names_one_key(count: bytes) -> None:
    """An event whose `numkeys` is wrong belongs where the key behind it does, and is rejected there."""
    assert [b"a"] == keys_of(b"LMPOP", [count, b"a", b"LEFT"])
    assert [b"a"] == keys_of(b"MSETEX", [count, b"a", b"1", b"b"])


def test_choices_that_must_be_made_are_arguments() -> None:
    """`<LEFT|RIGHT>` is one argument, as any other word is."""
    assert (4, 4) == (SPECS[b"LMOVE"].arguments_min, SPECS[b"LMOVE"].arguments_max)
    assert 3 == SPECS[b"ZMPOP"].arguments_min
    assert 6 == SPECS[b"GEOSEARCH"].arguments_min  # the shortest way to say where, and that to say what


@pytest.fixture
def sorting() -> Iterator[str]:
    """A command of which two options name a key, while the test runs."""
    usage = "SORTING key by [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ALPHA] "
    usage += "[STORE destination|STOREDIST destination]"
    command(usage, group="list", since="1.0.0", complexity="O(1)")(lambda _tx, _args: None)
    yield "SORTING"
    del SPECS[b"SORTING"]


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        ("", "a"),
        ("STORE d", "a d"),
        ("alpha store\0 d LIMIT 1 2", "a d"),
        ("STORE d STOREDIST e", "a e"),
        ("STORE STOREDIST e", "a STOREDIST"),
        ("BY STORE STORE d", "a d"),
        ("GET STORE GET x LIMIT STORE b", "a"),
        ("NOSUCH STORE d", "a d"),
        ("STORE d STORE", "a d"),
        ("STORE", "a"),
        ("LIMIT 1", "a"),
    ],
)
def test_an_option_may_name_a_key(sorting: str, options: str, keys: str) -> None:
    """The last of the options with a key says it, in any case; the values of other options are no options."""
    assert keys.encode().split() == keys_of(sorting.encode(), [b"a", b"STORE", *options.encode().split()])


def test_a_command_with_a_key_in_its_options_has_many() -> None:
    """Only there are the options looked at, and nobody takes its first key for the only one."""
    with_options = {spec.name for spec in SPECS.values() if spec.options}

    assert all(SPECS[name].many_keys for name in with_options)
    assert not with_options & {b"SET", b"GETEX", b"ZRANGE", b"COPY"}


@pytest.mark.parametrize(("write", "notifies"), [(True, None), (False, "set")])
def test_writes_say_their_keyspace_event(*, write: bool, notifies: str | None) -> None:
    """A write that says nothing of it is refused where it is registered, and so is a read that has one."""
    with pytest.raises(ValueError, match="EVENTFUL: a write says which keyspace event it has"):
        command("EVENTFUL key", group="string", since="1", complexity="O(1)", write=write, notifies=notifies)

    assert b"EVENTFUL" not in SPECS


def test_a_name_is_taken_once() -> None:
    """A second command of the same name is a mistake of ours."""
    with pytest.raises(ValueError, match="GET is registered twice"):
        command("GET key", group="string", since="1.0.0", complexity="O(1)")(lambda _tx, _args: None)


@pytest.mark.parametrize("access", ["RX", "access", "RO acces", "RO,", "RO not_key"])
def test_access_is_said_in_known_words(access: str) -> None:
    """A slip in what is done to keys is noticed where the command is registered."""
    with pytest.raises(ValueError, match="no access to keys"):
        parse_access(access)


def test_access_of_each_place() -> None:
    """Places of keys are separated by commas; where nothing is said, it follows from whether the command writes."""
    assert (("RW", "access", "delete"), ("RW", "insert")) == SPECS[b"LMOVE"].access
    assert (("RW", "update"),) == SPECS[b"HSET"].access
    assert (("RO", "access"),) == SPECS[b"GET"].access


NEED_MEMORY: Final = """
APPEND BITFIELD BITOP COPY DECR DECRBY FUNCTION|LOAD FUNCTION|RESTORE GEOADD GEORADIUS GEORADIUSBYMEMBER GEOSEARCHSTORE
GETSET HINCRBY HINCRBYFLOAT HMSET HSET HSETEX HSETNX INCR INCRBY INCRBYFLOAT LINSERT LMOVE LPUSH LPUSHX LSET MSET MSETEX
MSETNX PFADD PFMERGE PSETEX RESTORE RPOPLPUSH RPUSH RPUSHX SADD SDIFFSTORE SET SETBIT SETEX SETNX SETRANGE SINTERSTORE
SORT SUNIONSTORE XADD XGROUP|CREATE XGROUP|CREATECONSUMER XSETID ZADD ZDIFFSTORE ZINCRBY ZINTERSTORE ZRANGESTORE
ZUNIONSTORE
"""

NEED_NONE: Final = """
DEL DELIFEQ EVAL EVALSHA EXPIRE EXPIREAT FCALL FLUSHALL FLUSHDB FUNCTION|DELETE FUNCTION|FLUSH GETDEL GETEX HDEL
HEXPIRE HEXPIREAT HGETDEL HGETEX HPERSIST HPEXPIRE HPEXPIREAT LMPOP LPOP LREM LTRIM MOVE PERSIST PEXPIRE PEXPIREAT
RENAME RENAMENX RPOP RULES RUNAS RUNAS_OOM SCRIPT|FLUSH SCRIPT|LOAD SELECT SETCLOCK SMOVE SPOP SREM SWAPDB TICK UNLINK
UNWATCH WATCH XACK XACKDEL XAUTOCLAIM XCLAIM XDEL XDELEX XGROUP|DELCONSUMER XGROUP|DESTROY XGROUP|SETID XREADGROUP
XTRIM ZMPOP ZPOPMAX ZPOPMIN ZREM ZREMRANGEBYLEX ZREMRANGEBYRANK ZREMRANGEBYSCORE
"""
"""All other writes of the day on which RUNAS_OOM came."""


@pytest.mark.parametrize(("names", "grows"), [(NEED_MEMORY, True), (NEED_NONE, False)])
def test_what_needs_memory_does_not_change(names: str, *, grows: bool) -> None:
    """A replay of RUNAS_OOM refuses the same commands for ever; a new command is free."""
    assert not [name for name in names.split() if SPECS[name.encode()].grows is not grows]
