"""Measures what scripts cost a server, by CPU time and memory, beside valkey-server.

script_set     SET, and a script of this one call by EVAL, EVALSHA and FCALL (`eval_…`, `evalsha_…`, `fcall_…`), from
               50 clients; `…_ratio` is by SET
script_get     the same of GET, and by EVALSHA_RO, which is no event (`ro_…`)
script_calls   1,000 INCR in a pipeline, and a script of 1,000 INCR (`script_…`): µs each thousand
script_memory  how much a server grows for 10,000 scripts: of EVAL, which are kept 500 at a time, and of SCRIPT LOAD
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from statistics import median
from typing import Final

from benchmarks.resp.commands import LoadError, cpu_seconds, fill, measure, rss_kib
from benchmarks.resp.two_servers import Figures, two_servers
from tests.real.oracle import Connection, ErrorReply
from tests.wire.servers import RespServer

_DEPTH: Final = 16
_CALLS: Final = 1000
_AT_ONCE: Final = 100
_KEY: Final = "key:__rand_int__"
_SET: Final = "return redis.call('SET', KEYS[1], ARGV[1])"
_GET: Final = "return redis.call('GET', KEYS[1])"
_LIBRARY: Final = "#!lua name=bench\nredis.register_function('one_set', function(keys, args) {} end)".format(
    "return redis.call('SET', keys[1], args[1])"
)
_MANY: Final = "for n = 1, 1000 do redis.call('INCR', KEYS[1]) end return redis.call('GET', KEYS[1])"
_KEPT: Final = "local n = redis.call('INCR', KEYS[1]) if n > tonumber(ARGV[1]) then return 0 end return n -- {:08d}"


@dataclass(frozen=True, slots=True)
class ScriptsSize:
    """How much is measured.

    Attributes:
        requests: of a run, from 50 clients in pipelines of 16.
        rounds: runs of each figure.
        keys: how many keys the commands choose from.
        thousands: scripts of 1,000 calls in a run.
        kept: how many scripts are kept.
    """

    requests: int
    rounds: int
    keys: int
    thousands: int
    kept: int


SCRIPTS_LARGE: Final = ScriptsSize(requests=40_000, rounds=3, keys=10_000, thousands=40, kept=10_000)
SCRIPTS_SMOKE: Final = ScriptsSize(requests=4_000, rounds=1, keys=100, thousands=10, kept=1_000)


_Measure = Callable[[RespServer, ScriptsSize], dict[str, float]]


async def run_scripts(size: ScriptsSize) -> AsyncIterator[Figures]:
    """Measure both servers in turns.

    Raises:
        LoadError: a server met an error.
    """
    with two_servers() as servers:
        for server in servers.values():
            fill(server, size.keys)
        yield Figures("script_set", _medians(servers, size, _sets, size.rounds))
        yield Figures("script_get", _medians(servers, size, _gets, size.rounds))
        yield Figures("script_calls", _medians(servers, size, _thousands, size.rounds))
        yield Figures("script_memory", _medians(servers, size, _grown, 1))


def _medians(servers: Mapping[str, RespServer], size: ScriptsSize, figures: _Measure, rounds: int) -> dict[str, float]:
    """The median of each figure, and of the ratios of each round."""
    runs: dict[str, list[float]] = {}
    for _ in range(rounds):
        for prefix, server in servers.items():
            taken = figures(server, size)
            for name, value in (taken | _ratios(taken)).items():
                runs.setdefault(prefix + name, []).append(value)
    return {name: round(median(values), 2) for name, values in runs.items()}


def _ratios(taken: Mapping[str, float]) -> dict[str, float]:
    """What each script takes by what the plain command takes, where there is one."""
    plain = taken.get("us")
    others = {name.removesuffix("us"): value for name, value in taken.items() if name != "us"}
    return {} if plain is None else {f"{kind}ratio": value / plain for kind, value in others.items()}


def _sets(server: RespServer, size: ScriptsSize) -> dict[str, float]:
    scripts = {"eval_": ["EVAL", _SET], "evalsha_": ["EVALSHA", _SET], "fcall_": ["FCALL", _LIBRARY]}
    return _one_call(server, size, {"": ["SET"], **scripts}, ["VXK"])


def _gets(server: RespServer, size: ScriptsSize) -> dict[str, float]:
    scripts = {"eval_": ["EVAL", _GET], "evalsha_": ["EVALSHA", _GET], "ro_": ["EVALSHA_RO", _GET]}
    return _one_call(server, size, {"": ["GET"], **scripts}, [])


def _one_call(
    server: RespServer, size: ScriptsSize, kinds: Mapping[str, Sequence[str]], args: Sequence[str]
) -> dict[str, float]:
    """CPU time of a command, and of it within a script, whose source is the second word."""
    figures = {}
    for kind, (command, *sources) in kinds.items():
        script = [_named(server, command, source) for source in sources]
        words = [command, *script, *(["1"] if script else []), _KEY, *args]
        run = measure(server, command.lower(), _DEPTH, size.requests, size.keys, asked=words)
        figures[f"{kind}us"] = run.cpu_us
    return figures


def _named(server: RespServer, command: str, source: str) -> str:
    """What stands for a source behind this command."""
    if command == "FCALL":
        with closing(server.connect()) as connection:
            _accepted(connection, ["FUNCTION", "LOAD", "REPLACE", source])
        return "one_set"
    return source if command == "EVAL" else _loaded(server, source)


def _loaded(server: RespServer, source: str) -> str:
    with closing(server.connect()) as connection:
        return str(_accepted(connection, ["SCRIPT", "LOAD", source]), "ascii")


def _thousands(server: RespServer, size: ScriptsSize) -> dict[str, float]:
    sha = _loaded(server, _MANY)
    with closing(server.connect()) as connection:
        began = cpu_seconds(connection)
        for _ in range(size.thousands):
            _accepted(connection, ["EVALSHA", sha, "1", "counted"])
        between = cpu_seconds(connection)
        for _ in range(size.thousands):
            connection.pipeline([["INCR", "counted"]] * _CALLS)
        ended = cpu_seconds(connection)
        if (reached := connection.call("GET", "counted")) is None or int(reached) % (2 * _CALLS * size.thousands):
            raise LoadError(f"the counter stands at {reached!r}")
    return {"us": (ended - between) / size.thousands * 1e6, "script_us": (between - began) / size.thousands * 1e6}


def _grown(server: RespServer, size: ScriptsSize) -> dict[str, float]:
    with closing(server.connect()) as connection:
        sources = [_KEPT.format(number) for number in range(2 * size.kept)]
        first = rss_kib(connection)
        _send_all(connection, [["EVAL", source, "1", "kept", "5"] for source in sources[: size.kept]])
        evaluated = rss_kib(connection)
        _send_all(connection, [["SCRIPT", "LOAD", source] for source in sources[size.kept :]])
        return {"eval_kib": evaluated - first, "load_kib": rss_kib(connection) - evaluated}


def _send_all(connection: Connection, commands: Sequence[Sequence[str]]) -> None:
    for first in range(0, len(commands), _AT_ONCE):
        for reply in connection.pipeline(commands[first : first + _AT_ONCE]):
            _check(reply)


def _accepted(connection: Connection, words: Sequence[str]) -> bytes:
    reply = connection.call(*words)
    _check(reply)
    assert isinstance(reply, bytes)
    return reply


def _check(reply: object) -> None:
    if isinstance(reply, ErrorReply):
        raise LoadError(reply.text.decode(errors="replace"))
