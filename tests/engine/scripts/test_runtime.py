"""The runtime: a script gets its keys and arguments, runs commands, and fails with Redis' texts."""

from __future__ import annotations

from itertools import product

from engine.errors import CommandError
from engine.scripts.runtime import ScriptRuntime
from tests.engine.scripts.host import RecordingHost, failure, run


def test_a_script_runs_a_command() -> None:
    """`redis.call` hands the words over and returns the reply."""
    host = RecordingHost({b"GET": b"value"})

    assert b"value" == run("return redis.call('GET', KEYS[1])", host, [b"k"])
    assert [[b"GET", b"k"]] == host.calls


def test_a_failed_command_ends_the_script() -> None:
    """The error of a command that `redis.call` ran is the script's, with the place."""
    host = RecordingHost({b"INCR": CommandError("ERR value is not an integer or out of range")})

    assert "ERR value is not an integer or out of range script: on @user_script:2." == failure(
        "local x = 1\nlocal y = redis.call('INCR', 'k')\nreturn y", host
    )


def test_nested_replies_of_any_size_arrive_whole() -> None:
    """However many items stand before and within nested tables, each comes out in its place."""
    runtime = ScriptRuntime()
    source = "local t = {} for n = 1, ARGV[1] do t[n] = n end for _ = 1, ARGV[2] do t = {t} end return {0, t}"
    wrong = []
    for count, depth in product(range(190, 540, 3), (1, 3, 7)):
        expected: list[object] = list(range(1, count + 1))
        for _ in range(depth):
            expected = [expected]
        if [0, expected] != run(source, args=[b"%d" % count, b"%d" % depth], runtime=runtime):
            wrong.append((count, depth))

    assert [] == wrong


def test_globals_are_protected() -> None:
    """A global that is not there cannot be read, and none can be made."""
    assert (
        "ERR user_script:1: Script attempted to access nonexistent global variable 'x' script: on @user_script:1."
        == failure("return x")
    )
    assert "ERR user_script:1: Attempt to modify a readonly table script: on @user_script:1." == failure("x = 1")


def test_a_script_that_does_not_compile_is_refused() -> None:
    """Lua's own text follows Redis' words."""
    assert "ERR Error compiling script (new function): user_script:1: '<eof>' expected near 'end'" == failure(
        "return 1 end"
    )
