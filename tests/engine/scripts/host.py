"""A host for scripts without an engine: it replies what a test says, and keeps what it was asked."""

from __future__ import annotations

import hashlib

from engine.errors import CommandError
from engine.scripts.host import ScriptHost
from engine.scripts.runtime import ScriptRuntime
from engine.values.replies import Reply


class RecordingHost:
    """Replies to each command what `replies` has for its first word, or raises it."""

    seed = 0

    def __init__(self, replies: dict[bytes, Reply] | None = None) -> None:
        self.replies = replies or {}
        self.calls: list[list[bytes]] = []
        self.lines: list[tuple[int, bytes]] = []

    def call(self, words: list[bytes]) -> Reply:
        """Reply, or raise what should be raised."""
        self.calls.append(words)
        reply = self.replies[words[0]]
        if isinstance(reply, CommandError):
            raise reply
        return reply

    def check_acl(self, words: list[bytes]) -> bool:
        """Whether the command has a reply."""
        return words[0] in self.replies

    def log(self, level: int, text: bytes) -> None:
        """Keep a line."""
        self.lines.append((level, text))

    def pause(self) -> bytes | None:
        """Go on."""
        return None


def run(
    source: bytes | str,
    host: ScriptHost | None = None,
    keys: list[bytes] | None = None,
    args: list[bytes] | None = None,
    runtime: ScriptRuntime | None = None,
) -> Reply:
    """The reply of one script, in a runtime of its own unless one is given."""
    source = source.encode() if isinstance(source, str) else source
    sha = hashlib.sha1(source, usedforsecurity=False).hexdigest().encode()
    return (runtime or ScriptRuntime()).run(sha, source, keys or [], args or [], host or RecordingHost())


def failure(source: bytes | str, host: ScriptHost | None = None) -> str:
    """The error of a script that must fail, without the SHA that Redis puts into it."""
    source = source.encode() if isinstance(source, str) else source
    try:
        reply = run(source, host)
    except CommandError as error:
        return error.message.replace(f" {hashlib.sha1(source, usedforsecurity=False).hexdigest()},", "")
    raise AssertionError(reply)
