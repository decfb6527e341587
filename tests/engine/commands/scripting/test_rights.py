"""The rights that the event of a script carries."""

from __future__ import annotations

import pytest

from engine.commands.registry import find_words
from engine.commands.scripting.callable import WITHOUT_KEYS
from engine.commands.scripting.rights import Denial, Rights
from engine.errors import CommandError
from engine.values.replies import OK
from tests.engine.commands.scripting.harness import outcome
from tests.engine.harness import new_store, open_machine, shape

NO_KEY = "No permissions to access a key"
NO_DATABASE = "No permissions to access database"


def denial(rights: str, command: str, db: int = 0) -> str | None:
    """What Ann is told who has these rights."""
    found = denied(rights, command, db)
    return None if found is None else found.message


def denied(rights: str, command: str, db: int = 0) -> Denial | None:
    """Why Ann may not do this who has these rights."""
    words = command.encode().split()
    if words[0] in WITHOUT_KEYS:
        return Rights(b"ann", rights.encode()).denial(words[0], None, words[1:], db)
    spec, args = find_words(words)
    return Rights(b"ann", rights.encode()).denial(spec.name, spec, args, db)


@pytest.mark.parametrize(
    ("rights", "command"),
    [
        ("- ~*", "SET a 1"),
        ("-flushall ~* &*", "FLUSHDB"),
        ("+get,select|0 ~*", "SELECT 0"),
        ("- ~a*", "MSET a 1 ab 2"),
        ("- %R~a*", "GET a"),
        ("- %W~a*", "SET a 1"),
        ("- %W~a* %R~b", "COPY b a"),
        ("- ~a", "OBJECT ENCODING a"),
        ("- &news*", "PUBLISH news:1 x"),
        ("- ~* db=0,2", "GET a"),
        ("+get ~a\n+set ~b", "SET b 1"),
    ],
)
def test_what_a_selector_allows_may_run(rights: str, command: str) -> None:
    """Commands, first arguments, keys by what is done to them, channels and databases."""
    assert denial(rights, command) is None


@pytest.mark.parametrize(
    ("rights", "command", "text"),
    [
        ("-flushall ~* &*", "FLUSHALL", "User ann has no permissions to run the 'flushall' command"),
        ("+get,select|0 ~*", "SELECT 1", "User ann has no permissions to run the 'select' command"),
        ("+get ~*", "PING", "User ann has no permissions to run the 'ping' command"),
        ("- ~a*", "MSET a 1 b 2", NO_KEY),
        ("- %R~a*", "SET a 1", NO_KEY),
        ("- %W~a*", "GET a", NO_KEY),
        ("- %W~a* %R~b", "COPY a b", NO_KEY),
        ("-", "GET a", NO_KEY),
        ("- &news*", "PUBLISH old x", "No permissions to access a channel"),
        ("- ~* db=1,2", "GET a", NO_DATABASE),
        ("- ~* db=0", "SELECT 1", NO_DATABASE),
        ("- ~* db=0", "FLUSHALL", NO_DATABASE),
        ("+get ~a\n+set ~b", "GET b", NO_KEY),
    ],
)
def test_what_no_selector_allows_is_refused(rights: str, command: str, text: str) -> None:
    """The text is that of the selector which came furthest."""
    assert text == denial(rights, command)


def test_a_script_runs_with_the_rights_of_its_user() -> None:
    """Each command is held against them; what it wrote before stays, and the next event has all rights again."""
    machine = open_machine(new_store())
    script = "redis.call('SET', 'a', '1') return redis.call('SET', 'b', '1')"
    reply = outcome(machine, "RUNAS", "ann", "- ~a", "EVAL", script, "0")
    assert isinstance(reply, CommandError)
    assert reply.message.startswith(f"ERR ACL failure in script: {NO_KEY} script: ")
    assert [b"a"] == machine.read(b"KEYS", [b"*"])
    assert shape(OK) == shape(outcome(machine, "EVAL", script, "0"))


def test_a_script_may_ask_what_it_may_do() -> None:
    """redis.acl_check_cmd goes by the same rights."""
    machine = open_machine(new_store())
    script = "return {redis.acl_check_cmd('GET', 'a'), redis.acl_check_cmd('GET', 'b')}"
    assert shape([1, None]) == shape(outcome(machine, "RUNAS", "ann", "- ~a", "EVAL", script, "0"))


@pytest.mark.parametrize("name", ["SET", "RUNAS", "NOSUCH"])
def test_only_scripts_run_as_somebody(name: str) -> None:
    """RUNAS takes the commands that run scripts."""
    reply = outcome(open_machine(new_store()), "RUNAS", "ann", "-", name, "return 1", "0")
    assert shape(CommandError("ERR only a script runs as somebody")) == shape(reply)


@pytest.mark.parametrize(
    ("rights", "command", "expected"),
    [
        ("-object|encoding ~*", "OBJECT ENCODING a", ("command", b"object|encoding")),
        ("- ~a", "MSET a 1 b 2 c 3", ("key", b"b")),
        ("- ~* &a", "PUBLISH b x", ("channel", b"b")),
        ("- ~* db=0", "SELECT 3", ("database", b"3")),
        ("- ~* db=3", "GET a", ("database", b"get")),
        ("- ~* db=0", "FLUSHALL", ("database", b"flushall")),
    ],
)
def test_what_was_denied(rights: str, command: str, expected: tuple[str, bytes]) -> None:
    """A denial says what ACL LOG shows."""
    found = denied(rights, command)
    assert found is not None
    assert expected == (found.reason, found.denied)
