"""The first line of a script that says what it needs: `#!lua flags=no-writes,allow-oom`.

Source: https://valkey.io/topics/eval-intro/ ("Script flags"); error texts as valkey-server 9.1 has them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.errors import CommandError

NO_WRITES: Final = b"no-writes"
ALLOW_OOM: Final = b"allow-oom"
ALLOW_STALE: Final = b"allow-stale"
NO_CLUSTER: Final = b"no-cluster"
ALLOW_CROSS_SLOT_KEYS: Final = b"allow-cross-slot-keys"

FLAGS: Final = (NO_WRITES, ALLOW_OOM, ALLOW_STALE, NO_CLUSTER, ALLOW_CROSS_SLOT_KEYS)
"""In Redis' order. The flags of a function are kept as one bit for each of them, the first the lowest."""


class Script(NamedTuple):
    """A source, taken apart.

    Attributes:
        body: Lua. Behind a first line of flags it begins with the end of that line, so that its lines keep their
            numbers.
        flags: None when there is no such line: then Redis asks for less (no flag is needed, and keys may lie in
            different slots).
    """

    body: bytes
    flags: frozenset[bytes] | None


def parse(source: bytes) -> Script:
    """Take a source apart.

    Raises:
        CommandError: its first line asks for what there is not.
    """
    if not source.startswith(b"#!"):
        return Script(source, None)
    line, newline, _ = source.partition(b"\n")
    if not newline:
        raise CommandError("ERR Invalid script shebang")
    engine, *options = line[2:].split(b" ")
    flags: frozenset[bytes] = frozenset()
    for option in filter(None, options):
        name, equals, words = option.partition(b"=")
        if name != b"flags" or not equals:
            raise CommandError(f"ERR Unknown lua shebang option: {_text(option)}")
        flags = _parse_flags(words)
    if engine.lower() != b"lua":
        raise CommandError(f"ERR Could not find scripting engine '{_text(engine)}'")
    return Script(source[len(line) :], flags)


def flags_of(bits: int) -> frozenset[bytes]:
    """The flags that stand for these bits."""
    return frozenset(flag for at, flag in enumerate(FLAGS) if bits >> at & 1)


def _parse_flags(words: bytes) -> frozenset[bytes]:
    if not words:
        return frozenset()
    found = words.split(b",")
    for flag in found:
        if flag not in FLAGS:
            raise CommandError(f"ERR Unexpected flag in script shebang: {_text(flag)}")
    return frozenset(found)


def _text(raw: bytes) -> str:
    return raw.decode(errors="surrogateescape")
