"""Random Lua programs that run commands, whose replies they use and show."""

from __future__ import annotations

from random import Random
from typing import Final

from tests.engine.scripts.programs import Program

_KEYS: Final = ("'s'", "'n'", "'l'", "'h'", "'u'", "'z'", "'none'")
_COMMANDS: Final = (
    *("'SET', 's', {any}", "'SET', 'n', {small}", "'GET', {key}", "'INCR', {key}", "'INCRBY', 'n', {small}"),
    *("'APPEND', {key}, {text}", "'STRLEN', {key}", "'SETRANGE', 's', 3, {text}", "'GETRANGE', 's', {small}, {small}"),
    *(
        "'DEL', {key}",
        "'EXISTS', {key}, {key}",
        "'TYPE', {key}",
        "'RENAME', {key}, 's'",
        "'COPY', {key}, 's', 'REPLACE'",
    ),
    *("'LPUSH', 'l', {text}, {small}", "'RPUSH', {key}, {text}", "'LPOP', 'l'", "'RPOP', {key}", "'LLEN', {key}"),
    *("'LRANGE', {key}, '0', -1", "'LINDEX', 'l', {small}", "'LSET', 'l', {small}, {text}", "'LREM', 'l', '0', {text}"),
    *(
        "'HSET', 'h', {text}, {any}",
        "'HGET', {key}, {text}",
        "'HDEL', 'h', {text}",
        "'HLEN', {key}",
        "'HEXISTS', 'h', 'a'",
    ),
    *("'HINCRBY', 'h', {text}, {small}", "'HMGET', 'h', 'a', {text}", "'SADD', 'u', {small}", "'SREM', {key}, {small}"),
    *("'SISMEMBER', {key}, {small}", "'SCARD', {key}", "'ZADD', 'z', {small}, {text}", "'ZSCORE', {key}, {text}"),
    *("'ZRANGE', {key}, '0', -1, 'WITHSCORES'", "'ZINCRBY', 'z', {small}, {text}", "'ZRANK', 'z', {text}", "'PING'"),
    *(
        "'SETBIT', 's', 7, 1",
        "'GETBIT', {key}, 7",
        "'MSET', 's', {text}, 'n', {small}",
        "'ECHO', {any}",
        "'LPOP', 'l', 2",
    ),
    *(
        "'SET', 's'",
        "'NOTHING', {key}",
        "{any}",
        "'GET', {{}}",
        "'SUBSCRIBE', 'a'",
        "'BLPOP', 'l', '0'",
        "'SET', 'n', 5, 'NX'",
    ),
)
_FORMS: Final = (
    *("out(redis.call({0}))", "out(redis.pcall({0}))", "out(pcall(redis.call, {0}))", "local {1} = redis.call({0});"),
    *("local {1} = redis.pcall({0});", "for turn = 1, 3 do out(redis.call({0}), turn) end"),
)
_OWN: Final = (
    *("redis.error_reply({0})", "redis.status_reply({0})", "redis.sha1hex({0})", "redis.error_reply('MY ' .. {0})"),
    *("redis.acl_check_cmd('GET', {0})", "redis.setresp(3)", "redis.setresp(2)", "redis.log(redis.LOG_DEBUG, {0})"),
)

CONTENTS: Final = """
redis.setresp(2)
local found = {}
for _, key in ipairs({'s', 'n', 'l', 'h', 'u', 'z', 'none'}) do
    local kind = redis.call('TYPE', key).ok
    local read = {
        string = {'GET', key}, list = {'LRANGE', key, 0, -1}, hash = {'HGETALL', key}, set = {'SMEMBERS', key},
        zset = {'ZRANGE', key, 0, -1, 'WITHSCORES'},
    }
    local items = read[kind] and redis.call(unpack(read[kind]))
    if kind == 'hash' or kind == 'set' then table.sort(items) end
    found[#found + 1] = {key, kind, items}
end
return found
"""
"""Reads all that programs can have written, whatever protocol they have chosen; the fields of a hash in one order."""


class CallingProgram(Program):
    """One random program, of which every other statement runs a command."""

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self._calls = random

    def _statement(self) -> str:
        if self._calls.random() < 0.5:
            return super()._statement()
        if self._calls.random() < 0.1:
            return f"out({self._calls.choice(_OWN).format(self._string())})"
        words = self._calls.choice(_COMMANDS).format(
            any=f"word({self._pick(self._string, self._word)})",
            key=self._calls.choice(_KEYS),
            small=self._word(),
            text=f"word({self._string()})",
        )
        form = self._calls.choice(_FORMS)
        return form.format(words, self._new() if "{1}" in form else "")

    def _word(self) -> str:
        """A number that is not 0: Lua 5.1 may make -0 of it, which Redis 7.0 writes so, and later versions as 0."""
        return self._calls.choice(("-2", "-1", "1", "2", "3", "4", "5"))
