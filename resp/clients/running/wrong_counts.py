"""The own error of a command that does not say where its keys are, in a cluster."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from engine.commands.registry import SPECS, Spec
from engine.commands.streams.read_options import read_options_of
from engine.errors import CommandError

if TYPE_CHECKING:
    from resp.catalog.plans import Plan

_NUMBER: Final = re.compile(rb"[ \t\n\v\f\r]*([+-]?[0-9]{1,9})")
"""As atoi, with which Redis looks for keys: the command itself refuses `2x` when it has come to their node."""

_STREAM_OPTIONS: Final = {b"BLOCK": 2, b"COUNT": 2, b"GROUP": 3, b"NOACK": 1}
"""How many words each one in front of STREAMS has."""


class _StateAskedError(Exception):
    """A command has read its arguments, found them right, and asked for the state."""


class _NoState:
    """Stands for the transaction where a command is run for what it says of its arguments alone."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        raise _StateAskedError(name)


_NO_STATE: Final[Any] = _NoState()


def own_error(plan: Plan, args: list[bytes]) -> CommandError | None:
    """What the command says of its arguments, if they do not say where its keys are; None: they do.

    It is found without a state, so nothing can be read or written by it.
    """
    spec = plan.spec
    if spec is None:
        if plan.server is None or plan.server.as_event is None or "movablekeys" not in plan.server.flags:
            return None
        try:
            (name, *args), _ = plan.server.as_event(args)
        except CommandError:  # such as a wrong timeout: the command says it itself, where its keys are
            return None
        spec = SPECS[name]
    if not _misplaces_keys(spec, args):
        return None
    try:
        if spec.keyword:
            read_options_of(args, 0, has_group=spec.name == b"XREADGROUP")
        else:
            spec.handler(_NO_STATE, args)
    except CommandError as error:
        return error
    except _StateAskedError:
        return None
    return None


def _misplaces_keys(spec: Spec, args: Sequence[bytes]) -> bool:
    if spec.keyword:
        at = 0
        while at < len(args) and (width := _STREAM_OPTIONS.get(args[at].upper())):
            at += width
        return at >= len(args) or args[at].upper() != spec.keyword or len(args) - at < 3 or (len(args) - at) % 2 == 0
    if spec.key_count < 0 or spec.keys_optional:
        return False
    number = _NUMBER.match(args[spec.key_count])
    return number is None or not 0 < int(number[1]) * spec.key_step <= len(args) - spec.key_count - 1
