"""How every command reads the words of its options."""

from __future__ import annotations


def read_option(word: bytes) -> bytes:
    """The option as Redis compares it: in any case, and a C string, so its first NUL ends it."""
    return word.partition(b"\0")[0].upper()
