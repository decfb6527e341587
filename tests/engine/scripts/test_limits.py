"""Limits: whatever a script does to go on, it ends with the same error each time."""

from __future__ import annotations

import pytest
from lupa.lua51 import LuaRuntime  # noqa: TID251 - what Lua itself sorts

from engine.errors import CommandError
from engine.scripts import runtime as runtimes
from engine.scripts.host import ScriptLimitError
from engine.scripts.runtime import ScriptRuntime
from tests.engine.scripts.host import RecordingHost, run

INSTRUCTIONS = "ERR the script was rolled back: it ran more than 100,000,000 instructions"
MEMORY = "ERR the script was rolled back: it allocated more than 128 MiB"

ENDLESS = {
    "a loop": "while true do end",
    "pcall in a loop": "while true do pcall(function() while true do end end) end",
    "a handler that goes on": "xpcall(function() while true do end end, function() while true do end end)",
    "a coroutine": "coroutine.wrap(function() while true do end end)()",
    "resume in a loop": "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
    "many short coroutines": "while true do coroutine.wrap(function() local x = 1 end)() end",
    "a metamethod": "local t = setmetatable({}, {__index = function(t, k) return t[k + 1] end})"
    " while true do pcall(function() return t[1] end) end",
    "sort": "table.sort({3, 2, 1}, function(a, b) while true do end end)",
    "gsub": "string.gsub('abc', '.', function() while true do end end)",
    "load": "load(function() while true do end end)",
    "an endless metatable": "return setmetatable({}, {__index = function(t, k) while k do end end})[1]",
    "tostring": "return tostring(setmetatable({}, {__tostring = function() while true do end end}))",
    "commands": "while true do redis.pcall('PING') end",
    "a pattern": "return string.match(('a'):rep(40), ('a?'):rep(40) .. ('a'):rep(40))",
    "backtracking": "return string.find(('a'):rep(3000), '.-.-.-.-b')",
    "moving elements": "local t = {} for i = 1, 30000 do t[i] = i end"
    " while true do table.insert(t, 1, 0) table.remove(t, 1) end",
    "a long text": "local s = ('x'):rep(1e6) while true do s:upper() s:sub(2) redis.sha1hex(s) tonumber(s) end",
    "joining texts": "local s = ('x'):rep(1e5) while true do local t = s .. 'y' end",
    "joining in loadstring": "local s = ('x'):rep(1e5) local f = loadstring('local s = ... return s .. 1')"
    " while true do f(s) end",
    "sorting": "local t = {} for i = 1, 10000 do t[i] = i end while true do table.sort(t) end",
    "nothing repeated": "while true do (''):rep(1e9) end",
}

GREEDY = {
    "tables": "local t = {} while true do t[#t + 1] = {} end",
    "a string": "return ('x'):rep(1e9)",
    "concatenation": "local s = 'x' while true do s = s .. s end",
    "garbage": "while true do local t = {} end",
    "pcall": "pcall(string.rep, 'x', 1e9) return 'on it goes'",
    "a coroutine": "return coroutine.resume(coroutine.create(function() return ('x'):rep(1e9) end))",
    "threads": "local t = {} while true do t[#t + 1] = coroutine.create(function() end) end",
    "format": "local t = {} for i = 1, 1e7 do t[i] = string.format('%d', i) end",
    "concat": "local t, s = {}, ('x'):rep(1e6) for i = 1, 1000 do t[i] = s end return table.concat(t)",
}


@pytest.fixture(scope="module")
def shared() -> ScriptRuntime:
    """One runtime for all."""
    return ScriptRuntime()


@pytest.fixture
def few_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundredth of the limit, so that a test takes milliseconds."""
    monkeypatch.setattr(runtimes, "INSTRUCTIONS_MAX", 1_000_000)


@pytest.mark.usefixtures("few_instructions")
@pytest.mark.parametrize("program", ENDLESS.values(), ids=list(ENDLESS))
def test_instructions_end(program: str, shared: ScriptRuntime) -> None:
    """A script that would never end is ended, cannot catch that, and the runtime goes on."""
    with pytest.raises(ScriptLimitError) as caught:
        run(program, RecordingHost({b"PING": b""}), runtime=shared)

    assert (INSTRUCTIONS, False) == (caught.value.message, caught.value.memory)
    assert 1 == run("return 1", runtime=shared)


@pytest.mark.usefixtures("few_instructions")
@pytest.mark.parametrize("call", ["call", "pcall"])
def test_words_of_a_command_count(call: str, shared: ScriptRuntime) -> None:
    """A command of many words counts for each of them: 5 of 5,000 words meet the limit that 5 of 3,000 do not."""
    program = f"local t = {{}} for i = 1, ARGV[1] do t[i] = 'x' end for i = 1, 5 do redis.{call}('DEL', unpack(t)) end"
    host = RecordingHost({b"DEL": 0})
    assert run(program, host, args=[b"3000"], runtime=shared) is None
    with pytest.raises(ScriptLimitError, match="instructions"):
        run(program, host, args=[b"5000"], runtime=shared)


_BAD_ORDER = b"""
local gas, solid, candidate = ... , 0, 0
local values, places = {}, {}
for at = 1, gas do values[at], places[at] = gas, at end
local function freeze(at) values[at], solid = solid, solid + 1 end
table.sort(places, function(one, other)
    if values[one] == gas and values[other] == gas then freeze(one == candidate and one or other) end
    if values[one] == gas then candidate = one elseif values[other] == gas then candidate = other end
    return values[one] < values[other]
end)
return table.concat(values, " ")
"""
"""Numbers in the order that is the worst for the quicksort, by M. D. McIlroy's "A killer adversary for quicksort"."""


@pytest.mark.usefixtures("few_instructions")
def test_comparisons_of_a_long_list_count(shared: ScriptRuntime) -> None:
    """To sort a list in an order that needs very many comparisons meets the limit, another order does not."""
    bad = LuaRuntime(encoding=None).eval(b"loadstring(...)", _BAD_ORDER)(2000).split(b" ")
    program = "local t = {} for at = 1, #ARGV do t[at] = tonumber(ARGV[at]) end table.sort(t) return t[2000]"
    assert 1999 == run(program, args=[b"%d" % (at * 7919 % 2000) for at in range(2000)], runtime=shared)
    with pytest.raises(ScriptLimitError, match="instructions"):
        run(program, args=bad, runtime=shared)


@pytest.mark.parametrize("wrong", ["'x'", "{}", "false", "function() end"])
def test_a_long_list_fails_as_a_short_one(wrong: str, shared: ScriptRuntime) -> None:
    """What cannot be compared has the same error in lists of any length."""
    program = (
        "local t = {{}} for at = 1, {} do t[at] = 1 end t[150] = {} local ok, text = pcall(table.sort, t) return text"
    )
    short, long = (run(program.format(count, wrong), runtime=shared) for count in (300, 301))
    assert short == long
    assert b"attempt to compare" in short


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """An eighth of the limits, so that a test takes milliseconds."""
    monkeypatch.setattr(runtimes, "MEMORY_BYTES_MAX", 16 << 20)
    monkeypatch.setattr(runtimes, "SHARED_MEMORY_BYTES", 8 << 20)


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("program", GREEDY.values(), ids=list(GREEDY))
def test_memory_ends(program: str, fresh: bool) -> None:
    """A script that takes too much is ended; only a fresh runtime's word is final."""
    runtime = ScriptRuntime(fresh=fresh)
    with pytest.raises(ScriptLimitError) as caught:
        run(program, runtime=runtime)

    assert (MEMORY, not fresh) == (caught.value.message, caught.value.memory)
    assert 1 == run("return 1", runtime=runtime)


def test_a_runtime_that_is_full_at_the_end_of_a_script_stops_no_partition() -> None:
    """Lua's collector needs memory itself where the table of strings is to shrink; there is none behind this script."""
    runtime = ScriptRuntime()
    assert 300_000 == run("local t = {} for i = 1, 3e5 do t[i] = 'text ' .. i end return #t", runtime=runtime)
    for _ in range(2):
        with pytest.raises(ScriptLimitError) as caught:
            run("local t, n = {}, 0 while true do n = n + 1 t[n] = {n} end", runtime=runtime)
        assert (MEMORY, True) == (caught.value.message, caught.value.memory)
    assert 1 == run("return 1", runtime=runtime)


def test_a_long_reply_counts_as_memory() -> None:
    """A command's reply that has no room in Lua ends the script before it is there."""
    host = RecordingHost({b"GET": bytes(200_000_000)})
    with pytest.raises(ScriptLimitError, match="allocated"):
        run("return #redis.pcall('GET')", host)


def test_long_arguments_count_as_memory() -> None:
    """So do a script's arguments."""
    with pytest.raises(ScriptLimitError, match="allocated"):
        run("return 1", args=[bytes(200_000_000)])


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("source", [b"--" + b"x" * 6_700_000, b"--" + b"x" * 50_000, b"x=1 " * 1_000_000])
def test_a_source_has_a_bound(source: bytes) -> None:
    """A source that not even a fresh runtime can compile is refused, and the runtime goes on."""
    runtime = ScriptRuntime()
    if len(source) > 1_000_000:
        with pytest.raises(CommandError, match="too large"):
            runtime.check(b"sha", source)
    else:
        runtime.check(b"sha", source)

    assert 1 == run("return 1", runtime=runtime)


def test_a_source_may_need_a_fresh_runtime() -> None:
    """A source of 6.7 MB has no room beside the other scripts, and is good all the same."""
    runtime = ScriptRuntime()
    runtime.check(b"sha", b"--" + b"x" * 6_700_000)
    with pytest.raises(ScriptLimitError) as caught:
        run(b"--" + b"x" * 6_700_000, runtime=runtime)

    assert caught.value.memory


@pytest.mark.usefixtures("few_instructions")
def test_what_ran_before_changes_nothing(shared: ScriptRuntime) -> None:
    """The last loop that a script may do is the same in a new runtime and in one that has served many."""
    program = "local n = 0 while true do n = n + 1 redis.call('STEP', n) end"
    counts = []
    for runtime in (ScriptRuntime(), shared, shared):
        run("local s = ('x'):rep(1000) .. 1 return s", runtime=shared)
        host = RecordingHost({b"STEP": 1})
        with pytest.raises(ScriptLimitError):
            run(program, host, runtime=runtime)
        counts.append(len(host.calls))

    assert 1 == len(set(counts))
    assert 10_000 < counts[0] < 20_000


def test_a_limit_may_be_met_at_the_very_end(shared: ScriptRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the last instruction falls, the script has its reply or meets the limit, and the runtime goes on."""
    monkeypatch.setattr(runtimes, "INSTRUCTIONS_MAX", 999)
    ended = []
    for turns in range(700, 1000):
        try:
            ended.append(run("for i = 1, ARGV[1] do end return 1", args=[b"%d" % turns], runtime=shared) == 1)
        except ScriptLimitError:
            ended.append(False)

    assert ended == sorted(ended, reverse=True)
    assert {True, False} == set(ended)


class BrokenHost(RecordingHost):
    """Its commands raise what no script may catch."""

    def call(self, words: list[bytes]) -> bytes:
        """Raise it."""
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    "program",
    [
        "return redis.call('GET')",
        "pcall(redis.call, 'GET') return 1",
        "xpcall(function() redis.call('GET') end, function(e) return type(e) end) return 1",
        "coroutine.resume(coroutine.create(function() redis.call('GET') end)) return 1",
    ],
)
def test_other_exceptions_pass_through(program: str, shared: ScriptRuntime) -> None:
    """What is no error of a command ends the run, and comes out as it was raised."""
    with pytest.raises(KeyboardInterrupt):
        run(program, BrokenHost(), runtime=shared)

    assert 1 == run("return 1", runtime=shared)


def test_an_error_of_ours_is_an_error_reply(shared: ScriptRuntime) -> None:
    """Deep recursion ends with Lua's own error, which a script may catch."""
    with pytest.raises(CommandError, match="stack overflow"):
        run("local function f() return 1 + f() end return f()", runtime=shared)
    with pytest.raises(CommandError, match="stack overflow"):
        run("local function f() return f() end return f()", runtime=shared)
