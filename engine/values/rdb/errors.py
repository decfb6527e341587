"""Reasons to refuse a payload. The command turns them into Redis' error texts."""

from __future__ import annotations


class VersionError(ValueError):
    """The footer is missing, of another RDB version, or its checksum is not that of the bytes before it."""


class FormatError(ValueError):
    """The bytes are not the RDB encoding of a value that Redis could have."""


class UnsupportedError(ValueError):
    """A value of a type that is not supported: one of a module."""


class TooLargeError(ValueError):
    """The value is larger than one command may make it."""
