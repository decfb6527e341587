"""The user whose script runs next in a fiber, to be told what rights refuse to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Final

from engine.apply.script_calls import ScriptDenial

TakeDenials = Callable[[Mapping[ScriptDenial, int]], None]

script_reader: Final = ContextVar[TakeDenials | None]("script_reader", default=None)
"""Takes what is refused to the script that runs next in this fiber, of one that is no event."""


def tell_reader(denials: Mapping[ScriptDenial, int]) -> None:
    """Tell whose script has run what was refused to it."""
    take = script_reader.get()
    script_reader.set(None)
    if denials and take is not None:
        take(denials)
