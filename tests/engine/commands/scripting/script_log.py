"""Random records of scripts: what they write and reply shows all that a process could have put into it."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any, Final

from engine.apply.machine import Record
from engine.tables.scripts import digest_of
from tests.engine.harness import NOW_MS
from tests.engine.scripts.calling import CallingProgram
from tests.engine.scripts.libraries.comparison import script_of
from tests.engine.scripts.libraries.values import number, text, value

INSTRUCTIONS_MAX: Final = 300_000
SHARED_BYTES: Final = 24 << 20
OWN_BYTES: Final = 32 << 20
"""Limits of these logs, which are lower so that many scripts meet them."""

_SEED: Final = "math.randomseed(7)\n"
_PIECES: Final = (
    *("return cjson.encode({value})", "return cjson.decode(cjson.encode({value}))", "return cmsgpack.pack({value})"),
    *(
        "return struct.pack('>dfi4', {number}, {number}, {number})",
        "return string.format('%.17g %5.2f', {number}, 1.5)",
    ),
    *("return {number} .. '', tostring({number}), tonumber('0.1') + 0.2, ('1.5' + 1)", "return string.upper({text})"),
    *("return math.random(), math.random(99), math.random(5, 70)", "return bit.tohex({number}), bit.bxor({number}, 7)"),
    *("return os.clock(), collectgarbage('count'), tostring({{}}), tostring(type)", "return redis.sha1hex({text})"),
    "local t = {{}} for i = 1, 300 do t[i] = math.random(70) end table.sort(t) return t",
    "local t = {{}} for i = 1, 40 do t[{text} .. i] = i end local s = '' for k in pairs(t) do s = s .. k end return s",
    "local t = {{a = 1, [2] = 2, [1.5] = 3, [true] = 4, id = {value}}} return next(t), cjson.encode_sparse_array()",
    "return ({text}):find('[%a%p]+'), ({text}):gsub('%w', string.upper), ({text}):byte(1, 5)",
    "return redis.call('TIME'), redis.call('SPOP', 'u'), redis.call('SRANDMEMBER', 'u'), redis.call('HRANDFIELD', 'h')",
    "return redis.call('INCRBYFLOAT', 'f', {number}), redis.call('ZADD', 'z', {number}, {text})",
    "return redis.call('INCR', 's')",
    "for key in pairs({{a = 1, [{{}}] = 2}}) do return key end",
    "return redis.call('SORT', 'u', 'ALPHA', 'DESC'), redis.call('SMEMBERS', 'u'), redis.call('HGETALL', 'h')",
)
_LIMITS: Final = (
    "redis.call('SET', KEYS[1], 'lost') while true do end",
    "redis.call('SET', KEYS[1], 'lost') for i = 1, ARGV[1] * 1000 do end return 1",
    "redis.call('SET', KEYS[1], 'lost') local s = 'x' while true do s = s .. s end",
    "local t, n = {}, ARGV[1] * 30 local function f(...) for i = 1, n do t[i] = {...} end end f(unpack({}, 1, 100))",
    "for i = 1, ARGV[1] * 20 do redis.call('INCR', KEYS[1]) end return 1",
    "redis.call('SET', KEYS[1], 'half') return redis.call('LPUSH', KEYS[1], ARGV[1])",
    "local function f() return 1 + f() end redis.call('SET', KEYS[1], 'half') return f()",
    "return (",
    "error(cjson.null)",
    "error(coroutine.create(function() end))",
    "return _G[{}]",
)
_FEW: Final = 40
_LIBRARIES: Final = 5


def script_records(random: Random, count: int) -> Iterator[Record]:
    """So many records; each has an id, by which its reply stays in the state."""
    known: list[bytes] = []
    at_ms = NOW_MS
    for offset in range(count):
        at_ms += random.randrange(2000)
        name, args = _event(random, offset, known)
        yield offset, at_ms, name, args, random.randrange(2), b"id %d" % offset, None


def _event(random: Random, offset: int, known: list[bytes]) -> tuple[bytes, list[Any]]:
    kind = random.randrange(100)
    if kind == 0:
        return b"SCRIPT|FLUSH", []
    if kind < 5:
        known.append(_source(random))
        return b"SCRIPT|LOAD", [known[-1]]
    if kind < 15:
        steps = [_run(random, offset, known) for _ in range(random.randint(1, 3))]
        return b"EXEC", [[name, *args] for name, args in steps]
    if kind < 20:
        return b"RUNAS", [b"ann", b"-get,rpush ~s ~u ~result:*", *_words(_run(random, offset, known))]
    if kind < 25:
        return b"FUNCTION|LOAD", [b"REPLACE", _library(random)]
    return _run(random, offset, known)


def _library(random: Random) -> bytes:
    """A library with one function, which counts its calls in a local variable."""
    number, source = random.randrange(_LIBRARIES), _source(random) if random.randrange(3) else _limited(random)
    counted = source.replace(b"return outcomes", b"return calls, outcomes")
    body = b"calls = calls + 1 local KEYS, ARGV = keys, args\n%b" % counted
    function = b"redis.register_function('f%d', function(keys, args) %b\nend)" % (number, body)
    return b"#!lua name=lib%d\nlocal calls = 0\n%b" % (number, function)


def _words(command: tuple[bytes, list[bytes]]) -> list[bytes]:
    return [command[0], *command[1]]


def _run(random: Random, offset: int, known: list[bytes]) -> tuple[bytes, list[bytes]]:
    """EVAL of a new source, EVALSHA of an old one, or FCALL."""
    rest = [b"1", b"result:%d" % offset, b"%d" % random.randint(1, 700)]
    if random.randrange(5) == 0:
        return b"FCALL", [b"f%d" % random.randrange(_LIBRARIES), *rest]
    if known and random.randrange(5) == 0:
        return b"EVALSHA", [digest_of(random.choice(known[-_FEW:])), *rest]
    known.append(_source(random))
    return b"EVAL", [known[-1], *rest]


def _source(random: Random) -> bytes:
    kind = random.random()
    if kind < 0.1:
        return _limited(random)
    pieces = [_program(random)] if kind < 0.5 else [_piece(random) for _ in range(random.randint(1, 4))]
    shown = script_of(pieces, ordered=True).removesuffix(b"return outcomes")
    return shown + b"redis.call('SET', KEYS[1], table.concat(outcomes, '\\n')) return outcomes"


def _limited(random: Random) -> bytes:
    return random.choice(_LIMITS).encode()


def _program(random: Random) -> str:
    """A program of commands, the numbers of which come from its record half of the time."""
    program = CallingProgram(random).text()
    return program.replace(_SEED, "") if random.randrange(2) else program


def _piece(random: Random) -> str:
    return random.choice(_PIECES).format(value=value(random, keys_max=20), number=number(random), text=text(random))
