"""Runs scripts in Lua 5.1, which lupa carries.

A runtime belongs to one partition, and is made at its first script. What a script may use is counted, never timed, so
that every replay ends it at the same place:

- instructions, by a hook, which gives others their turn as well;
- memory: nothing is collected while a script runs, so what counts is all that it allocates. Other scripts have left
  things in a runtime, such as strings that need not be made again, so its own limit decides nothing: a script that
  meets it is run again in a runtime of its own (`fresh`), with a limit that is larger by more than that.

Measured in instructions of the processor, CPython 3.11 in valgrind: a run of `return 1` takes 33,000; each command of a
script adds 16,000 to its own. A new runtime: 5 to 20 ms.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, Final

from lupa import lua51

from engine.errors import CommandError, counted_error
from engine.scripts.bytecode import rewritten
from engine.scripts.conversions import from_list, to_lua, to_word
from engine.scripts.host import ScriptHost, ScriptLimitError
from engine.scripts.sources import load
from engine.values.replies import Reply, Status

INSTRUCTIONS_MAX: Final = 100_000_000
"""Of one script: about a second. What C functions do at once counts as instructions, and each command as 50."""

LOAD_INSTRUCTIONS_MAX: Final = 1_000_000
"""Of the code of a library while it registers its functions: 10 ms. Each call of one of them takes as long again."""

MEMORY_BYTES_MAX: Final = 128 * 1024 * 1024
"""What one script may allocate in all, with what the sandbox takes."""

SHARED_MEMORY_BYTES: Final = 64 * 1024 * 1024
"""Of a runtime that serves many scripts, with the 16 MiB that earlier ones may leave."""

COMPILED_MAX: Final = 500
COMPILED_BYTES_MAX: Final = 1024 * 1024

_RESERVE_BYTES: Final = 1024 * 1024  # lupa makes strings outside of Lua's protection: this much must be free for them
_ELEMENT_BYTES: Final = 64
_SMALL_BYTES: Final = 64 * 1024  # for this much there is always room
_SMALL_COUNT: Final = 100  # arguments that Lua's stack takes at once
_CHUNK_NAME: Final = b"@user_script"
_LIBRARY_NAME: Final = b"@user_function"
_DONE, _FAILED, _STOPPED, _REFUSED, _STATUS = 0, 1, 2, 3, 4
_TEXTS: Final = {
    b"instructions": f"ERR the script was rolled back: it ran more than {INSTRUCTIONS_MAX:,} instructions",
    b"memory": f"ERR the script was rolled back: it allocated more than {MEMORY_BYTES_MAX >> 20} MiB",
}
_TOO_LARGE: Final = f"ERR the script is too large: it takes more than {MEMORY_BYTES_MAX >> 20} MiB to compile"
_COMPILING: Final = "ERR Error compiling script (new function):"
_COMPILING_LIBRARY: Final = "ERR Error compiling function:"
_REGISTERING: Final = "ERR Error registering functions:"
_LOAD_TEXTS: Final = {
    b"instructions": f"ERR FUNCTION LOAD ran more than {LOAD_INSTRUCTIONS_MAX:,} instructions",
    b"memory": f"ERR FUNCTION LOAD allocated more than {MEMORY_BYTES_MAX >> 20} MiB",
}
_ARITY_HINT: Final = "Please specify at least one argument for this redis lib call"


class ScriptRuntime:
    """A Lua state with the sandbox in it, and the compiled scripts.

    Args:
        fresh: for one run of a script that has met the limit of memory in a runtime that others have used.
    """

    def __init__(self, *, fresh: bool = False) -> None:
        self._memory_bytes = MEMORY_BYTES_MAX if fresh else SHARED_MEMORY_BYTES
        self._host: ScriptHost | None = None
        self._resp = 2
        self._lua: Any = None
        self._forget()

    def _forget(self) -> None:
        """Begin with an empty Lua state."""
        self._compiled: dict[bytes, Any] = {}
        self._compiled_bytes = 0
        self._lua = lua51.LuaRuntime(
            encoding=None,
            register_eval=False,
            register_builtins=False,
            unpack_returned_tuples=True,
            attribute_filter=_no_attribute,
            max_memory=self._memory_bytes,
        )
        functions = {
            b"call_command": self._call_command,
            b"call_long_command": self._call_long_command,
            b"check_acl": self._check_acl,
            b"log": self._log,
            b"pause": self._pause,
            b"seed": self._seed,
            b"setresp": self._set_resp,
            b"sha1hex": _sha1hex,
            b"rewritten": rewritten,
        }
        self._sandbox = load(self._lua, functions)

    @property
    def memory_bytes(self) -> int:
        """What Lua has allocated for it, compiled scripts included."""
        return int(self._lua.get_memory_used())

    def check(self, sha: bytes, source: bytes) -> None:
        """Compile a script, which is kept for `run`.

        Raises:
            CommandError: it does not compile, or takes more memory than a script may have.
        """
        try:
            self._script(sha, source)
        except ScriptLimitError as error:
            if not error.memory:
                raise CommandError(_TOO_LARGE) from None
            ScriptRuntime(fresh=True).check(sha, source)

    def run(
        self, sha: bytes, source: bytes, keys: list[bytes], args: list[bytes], host: ScriptHost, function: bytes = b""
    ) -> Reply:
        """Run a script to its end.

        Args:
            sha: SHA-1 of the script in lower-case hex digits: the compiled script is kept under it.
            source: Lua 5.1.
            keys: `KEYS`, or the first argument of a function.
            args: `ARGV`, or the second one.
            host: runs its commands.
            function: the one to run, of the library that `source` is. Empty: `source` is a script.

        Raises:
            CommandError: it does not compile, or failed; what it wrote before stays.
            ScriptLimitError: it needed more than it may; nothing of it may stay.
        """
        script = self._function(sha, source, function) if function else self._script(sha, source)
        outcome = self._execute(script, INSTRUCTIONS_MAX, keys, args, host)
        if outcome[0] == b"done":
            return from_list(outcome)
        raise self._error(function or sha, *outcome)

    def functions_of(self, sha: bytes, source: bytes, host: ScriptHost) -> list[tuple[bytes, bytes | None, int]]:
        """Run the code of a library; return name, description and flags of each function that it registers.

        Raises:
            CommandError: it does not compile, fails, or runs too long.
            ScriptLimitError: it needed more memory than it may.
        """
        script = self._sandbox.list_of(self._library(sha, source))
        outcome = self._execute(script, LOAD_INSTRUCTIONS_MAX, [], [], host)
        if outcome[0] == b"done":
            rows: Any = from_list(outcome)
            return [(name, description, flags) for name, description, flags in rows]
        how, result = outcome[:2]
        error = self._error(sha, how, result)
        if isinstance(error, ScriptLimitError) and not error.memory:
            raise CommandError(f"{_REGISTERING} {_LOAD_TEXTS[result]}")
        if isinstance(error, CommandError):
            raise CommandError(f"{_REGISTERING} {_one_line(result)}")
        raise error

    def _execute(
        self, script: Any, instructions: int, keys: list[bytes], args: list[bytes], host: ScriptHost
    ) -> tuple[Any, ...]:
        """Run what was compiled: `sandbox.lua` says what comes of it."""
        if self._host is not None:
            raise RuntimeError("a script runs in this runtime already")  # lupa would go on in the other one's stack
        count = len(keys) + len(args)
        size = sum(map(len, keys)) + sum(map(len, args)) + _ELEMENT_BYTES * count
        if size > _SMALL_BYTES:
            self._require(size)
        self._host, self._resp = host, 2
        try:
            if count <= _SMALL_COUNT:
                outcome = self._sandbox.run(script, instructions, len(keys), *keys, *args)
            else:
                table = self._lua.table_from
                outcome = self._sandbox.run_with(script, instructions, table(keys), table(args))
        except lua51.LuaMemoryError:  # Lua's collector needs memory itself, to shrink the table of strings
            return b"stopped", b"memory"
        finally:
            self._host = None
        return tuple(outcome)

    def _error(
        self,
        name: bytes,
        how: bytes,
        result: Any,
        source: bytes | None = None,
        line: int = 0,
        is_counted: bool = False,
    ) -> BaseException:
        """What a script, or a function of that name, that did not end well raises."""
        if how == b"stopped":
            return self._limit_error(result)
        if how == b"raised":
            assert isinstance(result, BaseException)
            return result
        text = _failure(name, result, source, line)
        return counted_error(text) if is_counted else CommandError(text)

    def _script(self, sha: bytes, source: bytes) -> Any:
        """The compiled script."""
        script = self._compiled.get(sha)
        return script or self._keep(sha, source, self._sandbox.compile, _CHUNK_NAME, _COMPILING)

    def _library(self, sha: bytes, source: bytes) -> Any:
        """The compiled library."""
        key = b"library " + sha
        library = self._compiled.get(key)
        return library or self._keep(key, source, self._sandbox.compile_library, _LIBRARY_NAME, _COMPILING_LIBRARY)

    def _function(self, sha: bytes, source: bytes, name: bytes) -> Any:
        """A script that runs one function of a library."""
        key = b"%b %b" % (sha, name)
        script = self._compiled.get(key)
        if script is None:
            library = self._library(sha, source)
            script = self._compiled[key] = self._sandbox.function_of(library, name.lower())
        return script

    def _keep(self, key: bytes, source: bytes, compile_: Any, name: bytes, failing: str) -> Any:
        """Compile something, and keep it."""
        if len(self._compiled) >= COMPILED_MAX or self._compiled_bytes + len(source) > COMPILED_BYTES_MAX:
            self._compiled.clear()
            self._compiled_bytes = 0
        self._require(10 * len(source))
        try:
            script = compile_(source, name)
        except lua51.LuaMemoryError:
            raise self._limit_error(b"memory") from None
        if isinstance(script, tuple):
            if script[1] == b"not enough memory":
                raise self._limit_error(b"memory")
            text = script[1].decode(errors="surrogateescape")
            raise CommandError(f"{failing} {text}")
        self._compiled[key] = script
        self._compiled_bytes += len(source)
        return script

    def _limit_error(self, why: bytes) -> ScriptLimitError:
        """The error of a script that needed too much."""
        if why == b"memory":
            self._forget()  # what is in memory would count against the next one
        return ScriptLimitError(_TEXTS[why], memory=why == b"memory" and self._memory_bytes < MEMORY_BYTES_MAX)

    def _has_room(self, size: int) -> bool:
        return bool(self._lua.get_memory_used() + size + _RESERVE_BYTES <= self._memory_bytes)

    def _require(self, size: int) -> None:
        """Make sure that so many bytes can be handed to Lua."""
        if not self._has_room(size):
            raise self._limit_error(b"memory")

    def _call_command(self, *words: Any) -> tuple[int, Any]:
        """`redis.call` and `redis.pcall`: see redis.lua for what is returned."""
        assert self._host is not None
        try:
            given = _words(words)
        except CommandError as error:
            return _REFUSED, error.message.encode(errors="surrogateescape")
        try:
            reply = self._host.call(given)
            if not self._has_room(_size_of(reply)):
                return _STOPPED, b"memory"
            if type(reply) is Status:
                return _STATUS, bytes(reply)
            return _DONE, to_lua(reply, self._lua.table_from, self._resp)
        except CommandError as error:
            return _FAILED, error.message.encode(errors="surrogateescape")
        except lua51.LuaMemoryError:
            return _STOPPED, b"memory"

    def _call_long_command(self, words: Any, count: int) -> tuple[int, Any]:
        """`_call_command` of a table of so many words."""
        return self._call_command(*[words[at] for at in range(1, count + 1)])

    def _check_acl(self, *words: Any) -> tuple[int, Any]:
        """`redis.acl_check_cmd`."""
        assert self._host is not None
        try:
            given = _words(words)
        except CommandError as error:
            return _FAILED, error.message.removeprefix("ERR ").encode()
        try:
            return _DONE, self._host.check_acl(given)
        except CommandError:
            return _FAILED, b"Invalid command passed to redis.acl_check_cmd()"

    def _log(self, level: int, text: bytes) -> None:
        assert self._host is not None
        self._host.log(level, text)

    def _seed(self) -> int:
        assert self._host is not None
        return self._host.seed

    def _set_resp(self, version: int) -> None:
        self._resp = version

    def _pause(self) -> bytes | None:
        """Be in Python for a moment: here a slice of ingest may end. Between two runs there is no host."""
        return None if self._host is None else self._host.pause()


def _words(given: Iterable[Any]) -> list[bytes]:
    """The words of a command, of which numbers become text.

    Raises:
        CommandError: there are none, or one is neither.
    """
    words = [word if type(word) is bytes else to_word(word) for word in given]
    if not words:
        raise CommandError(f"ERR {_ARITY_HINT}")
    return words


def _size_of(reply: Reply) -> int:
    """About what a reply takes in Lua."""
    if isinstance(reply, bytes):
        return len(reply)
    if isinstance(reply, list | tuple):
        return _ELEMENT_BYTES * (len(reply) + 1) + sum(map(_size_of, reply))
    return _ELEMENT_BYTES


def _failure(name: bytes, text: bytes, source: bytes | None, line: int) -> str:
    """The reply of a script that failed, as Redis words it."""
    place = b"" if source is None else b" script: %b, on %b:%d." % (name, source, line)
    return _one_line(text + place)


def _one_line(text: bytes) -> str:
    return text.replace(b"\r", b" ").replace(b"\n", b" ").decode(errors="surrogateescape")


def _no_attribute(owner: object, name: object, setting: bool) -> str:
    """Refuse each attribute of a Python object: scripts get none of these objects, and this is the second lock."""
    raise AttributeError(name)


def _sha1hex(text: bytes) -> bytes:
    return hashlib.sha1(text, usedforsecurity=False).hexdigest().encode()
