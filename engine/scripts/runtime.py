"""Runs scripts in Lua 5.1, which lupa carries.

A runtime belongs to one partition, and is made at its first script.
"""

from __future__ import annotations

from pkgutil import get_data
from typing import Any, Final

from lupa import lua51

from engine.errors import CommandError
from engine.scripts.conversions import to_lua, to_reply
from engine.scripts.host import ScriptHost
from engine.values.replies import Reply

CHUNK_NAME: Final = b"@user_script"


class ScriptRuntime:
    """A Lua state with the sandbox in it, and the compiled scripts."""

    def __init__(self) -> None:
        self._lua: Any = lua51.LuaRuntime(
            encoding=None, register_eval=False, register_builtins=False, unpack_returned_tuples=True, max_memory=2**26
        )
        self._host: ScriptHost | None = None
        self._compiled: dict[bytes, Any] = {}
        source = get_data("engine.scripts", "sandbox.lua")
        assert source is not None
        load = self._lua.eval(b"loadstring")
        python = self._lua.table_from({b"call_command": self._call_command})
        self._run, self._compile = load(source, b"=sandbox")(python)

    def run(self, sha: bytes, source: bytes, keys: list[bytes], args: list[bytes], host: ScriptHost) -> Reply:
        """Run a script to its end.

        Args:
            sha: SHA-1 of `source` in lower-case hex digits: the compiled script is kept under it.
            source: Lua 5.1.
            keys: `KEYS`.
            args: `ARGV`.
            host: runs its commands.

        Raises:
            CommandError: it does not compile, or failed; what it wrote before stays.
            ScriptLimitError: it needed more than it may; nothing of it may stay.
        """
        script = self._compiled.get(sha) or self._compiled.setdefault(sha, self._compiled_script(source))
        table = self._lua.table_from
        self._host = host
        try:
            ended, value, *place = self._run(script, table(keys), table(args))
        finally:
            self._host = None
        if ended:
            return to_reply(value)
        raise CommandError(_failure(sha, value, *place))

    def _compiled_script(self, source: bytes) -> Any:
        compiled = self._compile(source, CHUNK_NAME)
        if isinstance(compiled, tuple):
            text = compiled[1].decode(errors="surrogateescape")
            raise CommandError(f"ERR Error compiling script (new function): {text}")
        return compiled

    def _call_command(self, *words: bytes) -> tuple[bool, Any]:
        assert self._host is not None
        try:
            reply = self._host.call(list(words))
        except CommandError as error:
            return True, error.message.encode(errors="surrogateescape")
        return False, to_lua(reply, self._lua.table_from)


def _failure(sha: bytes, text: bytes, source: bytes, line: int) -> str:
    """The reply of a script that failed, as Redis words it."""
    return (text + b" script: " + sha + b", on %b:%d." % (source, line)).decode(errors="surrogateescape")
