"""The setting whether the parts that are compiled run where they are installed, or Python alone."""

from __future__ import annotations

_allowed = True


def allow(*, compiled: bool) -> None:
    """Let what is made from now on use compiled parts, or none."""
    global _allowed  # noqa: PLW0603 - one for the process: it stands for how slotlog was installed
    _allowed = compiled


def is_allowed() -> bool:
    """Whether they may be used."""
    return _allowed
