"""Commands about functions whose replies are compared with those of redis-server, by hand and at random."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

from engine.values.rdb.encode import seal
from engine.values.rdb.functions import dump
from tests.engine.scripts.calling import CONTENTS, CallingProgram
from tests.engine.scripts.libraries.comparison import script_of

Words = list[bytes]

FIRST_LINES: Final = (
    *(
        "",
        "x",
        "#!lua name=a",
        "#!lua\n",
        "#!lua name=a\n",
        "#! name=a\n",
        "#!\n",
        "#!js name=a\nx",
        "#!js name=a-b\nx",
    ),
    *("#!lua name=a name=b\n", "#!lua  name=a\tname=a\nx", "#!lua NAME=a\nx", "#!lua name=\nx", "#!lua name=a-b\nx"),
    *("#!lua foo=a\nx", "#!lua name=a foo\nx", '#!lua "name=q"\nx', '#!lua "name=q\nx', "#!lua name=a\0b\nx"),
    *("#!lua name=a\n\0x", "#!lua bad\0x=1 name=a\nx", "#!lua name=a\n(", "#!lua name=a\nreturn 1", "#!LUA name=a\nx"),
)
"""Libraries that have something wrong, mostly in their first line."""

_NOTHING: Final = "callback=function() end"
REGISTRATIONS: Final = (
    *("redis.register_function()", "redis.register_function(1)", "redis.register_function('f')"),
    *("redis.register_function('f', 1)", "redis.register_function({}, function() end)"),
    *("redis.register_function('f', function() end, 1)", "redis.register_function(1, function() return 1 end)"),
    *("redis.register_function('a b', function() end)", "redis.register_function('', function() end)"),
    *("redis.register_function{}", "redis.register_function{function_name='f'}"),
    *(f"redis.register_function{{{_NOTHING}}}", "redis.register_function{function_name={}}"),
    "redis.register_function{function_name='f', callback=1}",
    *(
        f"redis.register_function{{function_name='f', {_NOTHING}, {more}}}"
        for more in (
            *("foo=1", "description={}", "description=7", "flags='x'", "flags={'x'}", "flags={1}", "flags={{}}"),
            *("flags={}", "flags={'NO-WRITES', 'no-writes', 'allow-oom'}", "flags={'no-writes', nil, 'x'}"),
            *("[1]=2", "[true]=2", "[{}]=2", "DESCRIPTION='d', flags={'allow-stale', 'allow-cross-slot-keys'}"),
        )
    ),
    *("redis.register_function('f', function() end) redis.register_function('f', function() end)",),
    *("redis.register_function('f', function() end) redis.register_function('g', function() end)",),
    *("a = 1", "local function f() return x end f()", "redis.call('ping')", "redis.setresp(3)", "return math.random()"),
    *("error('x')", "local t = nil; t.x = 1", "\n\nlocal t = nil; t.x = 1", "redis.x = 1", "return _G", "pcall(1)"),
    *(
        "redis.log(redis.LOG_DEBUG, 'a')",
        "redis.log(1)",
        "return redis.LOG_NOTICE .. redis.foo",
        "x.y = 1",
        "string.x()",
    ),
    *("local n = ('a'):rep(3) redis.register_function(n, function() end)", "return redis.REDIS_VERSION_NUM + {}"),
)
"""What code does while it is loaded."""

CALLED: Final = (
    "return {keys[1] or 'no', args[1] or 'no', #keys, #args}",
    "return KEYS",
    "return redis.call('get')",
    "\n return redis.call('incr', 's')",
    "error('x')",
    "error({err='MY x'})",
    "return redis.breakpoint()",
    "return redis.replicate_commands()",
    "return redis.register_function('g', function() end)",
    "return later('g', function() end)",
    "return little.call('ping')",
    "return little.LOG_NOTICE",
    "local t = {} for name in pairs(redis) do t[#t + 1] = name end table.sort(t) return t",
    "x = 1",
    "redis.x = 1",
    "return y",
    "return redis.foo",
    "return string.foo",
    "return redis.call('fcall', 'f', '0')",
    "return redis.call('function', 'list')",
    "return redis.call('eval', 'return 1', '0')",
    "return redis.call('set', 'a', '1')",
    "return redis.pcall('incr', 's')",
    "return redis.error_reply('My Err')",
    "return {err='x'}",
    "return loadstring('return KEYS')()",
    "return type(redis.call)",
    "return shared(20)",
    "redis.setresp(3) return redis.call('hgetall', 'h')",
    "return _G.redis.sha1hex('')",
)
"""Bodies of functions, which have `keys` and `args`; `later`, `little` and `shared` are locals of the library."""


def library(name: str, *functions: str) -> bytes:
    """The code of a library that registers something."""
    return f"#!lua name={name}\n{' '.join(functions)}".encode()


def function(name: str, body: str, flags: str = "") -> str:
    """The registration of one function."""
    callback = f"function(keys, args) {body} end"
    return f"redis.register_function{{function_name='{name}', callback={callback}, flags={{{flags}}}}}"


def calls() -> Iterator[Words]:
    """Each of the bodies, with no flags and with that of a reader, by both commands."""
    head = "local later, little = redis.register_function, redis\nlocal function shared(n) return n + 1 end"
    yield [b"SET", b"s", b"x"]
    yield [b"HSET", b"h", b"f", b"v"]
    for body in CALLED:
        for flags in ("", "'no-writes'"):
            yield [b"FUNCTION", b"LOAD", b"REPLACE", library("calls", head, function("MyF", body, flags))]
            yield [b"FCALL", b"myf", b"1", b"k", b"v", b"w"]
            yield [b"FCALL_RO", b"MYF", b"0"]


def loads() -> Iterator[Words]:
    """Libraries that can be loaded, and those that cannot."""
    for code in FIRST_LINES:
        yield [b"FUNCTION", b"LOAD", code.encode()]
    for body in REGISTRATIONS:
        yield [b"FUNCTION", b"LOAD", b"REPLACE", library("a", body)]
        yield [b"FUNCTION", b"LIST", b"WITHCODE"]


ONE: Final = library("a", "redis.register_function('f', function() return 1 end)")
BAD: Final = seal([b"\xf5\x10#!lua name=bad\n("], 10)
MANAGING: Final[tuple[Words, ...]] = (
    [b"FUNCTION", b"LOAD", b"y", b"x"],
    [b"FUNCTION", b"LOAD", b"y\0z", b"x"],
    [b"FUNCTION", b"LOAD", b"REPLACE"],
    [b"FUNCTION", b"LOAD", ONE],
    [b"FUNCTION", b"LOAD", ONE],
    [b"FUNCTION", b"LOAD", b"replace", b"REPLACE", ONE],
    [b"FUNCTION", b"LOAD", library("A", "redis.register_function('g', function() end)")],
    [b"FUNCTION", b"LOAD", library("b", "redis.register_function('F', function() end)")],
    [b"FUNCTION", b"LOAD", b"REPLACE", library("A", "redis.register_function('F', function() end)")],
    [b"FUNCTION", b"LIST", b"LIBRARYNAME", b"A"],
    [b"FUNCTION", b"LIST", b"libraryname", b"[^b]*", b"withcode"],
    [b"FUNCTION", b"LIST", b"LIBRARYNAME", b"z"],
    [b"FUNCTION", b"LIST", b"LIBRARYNAME", b""],
    [b"FUNCTION", b"LIST", b"LIBRARYNAME"],
    [b"FUNCTION", b"LIST", b"WITHCODE", b"WITHCODE"],
    [b"FUNCTION", b"LIST", b"LIBRARYNAME", b"a", b"LIBRARYNAME", b"b"],
    [b"FUNCTION", b"LIST", b"x\0y"],
    *(
        [b"FCALL", *words.split()]
        for words in (b"nosuch 0", b"nosuch x", b"f x", b"f -1", b"f 1", b"f 0 a", b"F 1 a b")
    ),
    [b"FCALL", b"f", b"99999999999999999999"],
    [b"FCALL_RO", b"f", b"x"],
    [b"FUNCTION", b"RESTORE", b"x"],
    [b"FUNCTION", b"RESTORE", b"x", b"y"],
    [b"FUNCTION", b"RESTORE", b"x", b"FLUSH", b"y"],
    [b"FUNCTION", b"RESTORE", seal([b"\x00\x01a"], 10)],
    [b"FUNCTION", b"RESTORE", seal([b"\xf5\x7f\xffa"], 10)],
    [b"FUNCTION", b"RESTORE", seal([b""], 10)],
    [b"FUNCTION", b"RESTORE", BAD],
    [b"FUNCTION", b"RESTORE", dump([ONE])],
    [b"FUNCTION", b"RESTORE", dump([ONE, ONE]), b"FLUSH"],
    [b"FUNCTION", b"RESTORE", dump([library("c", "redis.register_function('F', function() end)")]), b"REPLACE"],
    [b"FUNCTION", b"RESTORE", dump([library("c", "redis.register_function('h', function() end)"), ONE]), b"replace"],
    [b"FUNCTION", b"LIST"],
    [b"FUNCTION", b"RESTORE", dump([ONE]), b"flush"],
    [b"FUNCTION", b"LIST"],
    [b"FUNCTION", b"DELETE", b"A"],
    [b"FUNCTION", b"DELETE", b"a"],
    [b"FUNCTION", b"DELETE", b"a"],
    [b"FUNCTION", b"FLUSH", b"x"],
    [b"FUNCTION", b"FLUSH", b"sync", b"x"],
    [b"FUNCTION", b"FLUSH", b"sync"],
    [b"FUNCTION", b"LIST"],
)
"""Libraries that come and go."""

_LIBRARIES: Final = ("one", "two", "three", "Two")
_NAMES: Final = ("f", "g", "h", "F", "long_name", "G")
_FLAGS: Final = ("", "", "", "'no-writes'", "'allow-oom'", "'no-writes', 'allow-stale'")
_RETURNS: Final = (
    "return #keys + #args",
    "return redis.call('INCR', 'n')",
    "return redis.call('GET', 's')",
    "return args",
)


def _code(random: Random) -> bytes:
    names = {name.lower(): name for name in random.choices(_NAMES, k=random.randint(1, 3))}
    functions = (function(name, random.choice(_RETURNS), random.choice(_FLAGS)) for name in names.values())
    return library(random.choice(_LIBRARIES), *functions)


def _step(random: Random) -> Words:
    kind = random.randrange(12)
    if kind < 3:
        return [b"FUNCTION", b"LOAD", *random.choice(([], [b"REPLACE"])), _code(random)]
    if kind == 3:
        return [b"FUNCTION", b"DELETE", random.choice(_LIBRARIES).encode()]
    if kind == 4:
        payload = dump(_code(random) for _ in range(random.randint(0, 2)))
        return [b"FUNCTION", b"RESTORE", payload, random.choice((b"FLUSH", b"APPEND", b"REPLACE"))]
    if kind == 5:
        return [b"FUNCTION", b"LIST", *random.choice(([], [b"WITHCODE"], [b"LIBRARYNAME", b"t*"]))]
    if kind == 6 and random.random() < 0.2:
        return [b"FUNCTION", b"FLUSH"]
    words = random.choices((b"a", b"b"), k=random.randint(0, 3))
    count = b"%d" % random.randint(0, len(words))
    return [random.choice((b"FCALL", b"FCALL_RO")), random.choice(_NAMES).encode(), count, *words]


def sequence(random: Random) -> list[Words]:
    """Libraries that come and go, and calls of their functions."""
    return [_step(random) for _ in range(40)] + [[b"FUNCTION", b"LIST", b"WITHCODE"]]


def program(random: Random) -> list[Words]:
    """A function that is a random program, and shows what it has done and left."""
    body = script_of([CallingProgram(random).text(), CONTENTS], ordered=True).decode("latin-1")
    return [
        [b"FLUSHALL"],
        [b"FUNCTION", b"LOAD", b"REPLACE", library("programs", function("run", body))],
        [b"FCALL", b"run", b"0"],
    ]
