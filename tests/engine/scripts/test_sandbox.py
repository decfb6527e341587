"""The sandbox: nothing is left for the next script, nothing of the machine is within reach."""

from __future__ import annotations

from contextlib import suppress

import pytest

from engine.errors import CommandError
from engine.scripts.runtime import ScriptRuntime
from tests.engine.scripts.host import RecordingHost, failure, run

READ_ONLY = "Attempt to modify a readonly table"

ESCAPES = [
    "return print",
    "return io",
    "return package",
    "return require('os')",
    "return module",
    "return debug",
    "return dofile('/etc/passwd')",
    "return loadfile('/etc/passwd')",
    "return newproxy",
    "return getfenv",
    "return setfenv",
    "return python",
    "return os.getenv('HOME')",
    "return os.time()",
    "return string.dump(function() end)",
    "return redis.call.__self__",
    "return cjson.null.__class__",
    "return getmetatable(cjson.null).__index",
    "return loadstring('\\27Lua')()",
    "return load(function() return debug end)()",
    "return loadstring('return debug')()",
    "return coroutine.wrap(function() return debug end)()",
]
"""Each must fail: they ask for files, the clock, bytecode, environments, or what lupa shows of Python."""

WRITES = [
    "x = 1",
    "function f() end",
    "_G.x = 1",
    "rawset(_G, 'x', 1)",
    "_G._G.x = 1",
    "string.format = nil",
    "rawset(string, 'x', 1)",
    "table.insert(string, 1)",
    "table.insert(redis, 1, 2)",
    "setmetatable(_G, {})",
    "setmetatable(string, {})",
    "getmetatable('').__index = {}",
    "rawset(getmetatable(''), '__index', {})",
    "getmetatable('').__index.upper = nil",
    "getmetatable(_G).__index = nil",
    "redis.call = nil",
    "cjson.encode = nil",
    "KEYS = {}",
    "loadstring('x = 1')()",
    "coroutine.wrap(function() x = 1 end)()",
    "pcall(error) y = 2",
    "local s = string s.x = 1",
]
"""Each must fail: they change what scripts share."""

LEAKS = [
    ("math.randomseed(77)", "return math.random(1000)"),
    ("cjson.encode_sparse_array(true)", "return pcall(cjson.encode, {[1000] = 1})"),
    ("cjson.encode_number_precision(3)", "return cjson.encode(1 / 3)"),
    ("redis.setresp(3)", "return type(redis.call('NIL'))"),
    ("return tostring({})", "return tostring({})"),
    ("KEYS[1] = 'x' ARGV[1] = 'y'", "return #KEYS + #ARGV"),
    ("next({a = 1, b = 2})", "return next({c = 3})"),
    ("error({err = 'x'})", "return 1"),
    ("return collectgarbage('count')", "return collectgarbage('count')"),
]
"""A script that leaves something, and one that would show it."""


@pytest.fixture(scope="module")
def shared() -> ScriptRuntime:
    """One runtime for all."""
    return ScriptRuntime()


@pytest.mark.parametrize("program", ESCAPES)
def test_nothing_else_is_within_reach(program: str) -> None:
    """Files, the clock, bytecode and objects of Python are not there."""
    assert "script: on" in failure(program)


@pytest.mark.parametrize("program", WRITES)
def test_what_scripts_share_cannot_change(program: str) -> None:
    """Globals, libraries and the metatable of strings are read-only, through every door."""
    assert READ_ONLY in failure(program)


@pytest.mark.parametrize(("first", "second"), LEAKS)
def test_nothing_is_left_for_the_next_script(first: str, second: str, shared: ScriptRuntime) -> None:
    """A script ends the same in a new runtime and after a script that tries to leave something behind."""
    expected = run(second, RecordingHost({b"NIL": None}))
    with suppress(CommandError):
        run(first, runtime=shared)

    assert expected == run(second, RecordingHost({b"NIL": None}), runtime=shared)


@pytest.mark.parametrize("kind", ["{}", "function() end", "coroutine.create(function() end)"])
def test_no_address_is_shown(kind: str) -> None:
    """What `tostring` shows of tables, functions and threads counts from one in each script."""
    first, second = run(f"local a, b = {kind}, {kind} return {{tostring(a), tostring(b)}}")

    assert first.endswith(b": 0x00000001")
    assert second.endswith(b": 0x00000002")


@pytest.mark.parametrize(
    ("raised", "text"),
    [
        ("error(cjson.null)", "ERR userdata: (nil)"),
        ("error(type)", "ERR function: 0x00000001"),
        ("error(coroutine.create(function() end))", "ERR thread: 0x00000001"),
        ("return _G[{}]", "nonexistent global variable 'table: 0x00000001'"),
    ],
)
def test_no_error_shows_an_address(raised: str, text: str) -> None:
    """The same holds for the errors that a script ends with."""
    assert text in failure(raised)


@pytest.mark.parametrize("key", ["{}", "print_", "coroutine.create(print_)", "cjson.null"])
@pytest.mark.parametrize(
    "walk", ["for k in pairs(t) do end", "next(t)", "next(t, 'a')", "table.foreach(t, print_)", "return {map = t}"]
)
def test_a_table_ordered_by_addresses_is_not_walked(key: str, walk: str) -> None:
    """Where a key is an address, the order would differ at the next replay: an error says so."""
    assert "have no order" in failure(f"local print_ = function() end local t = {{a = 1, [{key}] = 2}} {walk}")


def test_a_walk_sees_what_is_there_when_it_begins() -> None:
    """Removing while walking is as in Lua; what is added meanwhile is never seen."""
    assert 3 == run(
        "local n, t = 0, {a = 1, b = 2, c = 3} for k in pairs(t) do n = n + 1 t[k] = nil t[k .. k] = 1 end return n"
    )


def test_tables_are_not_weak() -> None:
    """No weak table loses a member, because nothing is collected while a script runs."""
    assert 1 == run(
        "local t = setmetatable({}, {__mode = 'kv'}) t[1] = {} for i = 1, 1e5 do local x = {} end"
        " collectgarbage() return #t"
    )


def test_lines_of_the_log_reach_the_host() -> None:
    """`redis.log` hands level and text over, its words joined."""
    host = RecordingHost()
    run("redis.log(redis.LOG_WARNING, 'a', 1, nil, 'b')", host)

    assert [(3, b"a 1 b")] == host.lines


def test_the_seed_is_the_hosts() -> None:
    """Two runs with one seed draw the same, with another seed something else."""
    host = RecordingHost()
    first, again = run("return math.random(1e9)", host), run("return math.random(1e9)", host)
    host.seed = 5

    assert first == again
    assert first != run("return math.random(1e9)", host)


def test_many_scripts_are_compiled_anew() -> None:
    """A runtime keeps a bounded number of compiled scripts, and runs any number."""
    runtime = ScriptRuntime()

    assert list(range(1200)) == [run(f"return {number}", runtime=runtime) for number in range(1200)]


def test_many_keys_and_arguments() -> None:
    """Ten thousand keys and arguments arrive in order."""
    keys = [b"k%d" % number for number in range(5_000)]
    args = [b"a%d" % number for number in range(5_000)]

    assert [5_000, 5_000, b"k4999", b"a4999", None] == run(
        "return {#KEYS, #ARGV, KEYS[5000], ARGV[5000], ARGV[5001] or false}", keys=keys, args=args
    )
    assert [2, 1, b"b", b"c"] == run("return {#KEYS, #ARGV, KEYS[2], ARGV[1]}", keys=[b"a", b"b"], args=[b"c"])
