"""Kinds of CONFIG parameters: each parses and prints its values with Redis' error texts."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from engine.values.numbers import parse_int

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
HIDDEN: Final = "(hidden)"
"""What CONFIG GET shows of a secret that is set. Redis shows the secret."""

_MEMORY: Final = re.compile(r"(\d+)(b|kb?|mb?|gb?)?", re.IGNORECASE | re.ASCII)
_UNITS: Final = {"": 1, "b": 1, "k": 1000, "kb": 1024, "m": 1000**2, "mb": 1024**2, "g": 1000**3, "gb": 1024**3}

_EVENTS: Final = "g$lshzxetdn"
"""The classes of keyspace events in the order in which Redis shows them; `A` is all of them but `n`."""


@dataclass(frozen=True, slots=True)
class ParameterKind:
    """A kind of parameter.

    Attributes:
        parse: (text, value as it is now) -> value; raises ValueError with Redis' reason.
        show: value as it is kept -> text.
        keep: what of a value is kept; of a secret, whether there is one.
    """

    parse: Callable[[str, Any], Any]
    show: Callable[[Any], str] = str
    keep: Callable[[Any], Any] = lambda value: value


class BufferLimit(NamedTuple):
    """A client class's limit: `hard_bytes` at once, or `soft_bytes` for `soft_seconds`.

    0 means without limit.
    """

    hard_bytes: int
    soft_bytes: int
    soft_seconds: int


class BufferLimits(NamedTuple):
    """`client-output-buffer-limit`."""

    normal: BufferLimit
    replica: BufferLimit
    pubsub: BufferLimit


def integer(least: int, most: int) -> ParameterKind:
    """An integer of that range, both ends included."""

    def parse(text: str, _now: Any) -> int:
        value = parse_int(text.encode(errors="surrogateescape"))
        if value is None:
            raise ValueError("argument couldn't be parsed into an integer")
        return _within(value, least, most)

    return ParameterKind(parse)


def memory(least: int, most: int) -> ParameterKind:
    """A number of bytes, with a unit if one likes: 1kb is 1024, 1k is 1000."""

    def parse(text: str, _now: Any) -> int:
        return _within(_bytes(text), least, most)

    return ParameterKind(parse)


def _parse_share(text: str, _now: Any) -> int:
    """Bytes, or below 0 a share in percent: how Redis keeps such a value as well."""
    if not text.endswith("%"):
        return _within(_bytes(text), 0, INT64_MAX)
    percent = parse_int(text[:-1].encode(errors="surrogateescape"))
    if percent is None or percent < 0:
        raise ValueError("argument must be a memory or percent value")
    if percent > 100:
        raise ValueError("percentage argument must be less or equal to 100")
    return -percent


def choice(*names: str) -> ParameterKind:
    """One of these words, in any case."""

    def parse(text: str, _now: Any) -> str:
        if text.lower() not in names:
            raise ValueError(f"argument(s) must be one of the following: {', '.join(names)}")
        return text.lower()

    return ParameterKind(parse)


def _within(value: int, least: int, most: int) -> int:
    if not least <= value <= most:
        raise ValueError(f"argument must be between {least} and {most} inclusive")
    return value


def _bytes(text: str) -> int:
    match = _MEMORY.fullmatch(text)
    if match is None:
        raise ValueError("argument must be a memory value")
    return int(match[1]) * _UNITS[(match[2] or "").lower()]


def _parse_yes_no(text: str, _now: Any) -> bool:
    if text.lower() not in {"yes", "no"}:
        raise ValueError("argument must be 'yes' or 'no'")
    return text.lower() == "yes"


def _parse_events(text: str, _now: Any) -> str:
    if any(letter not in _EVENTS + "AKEm" for letter in text):
        raise ValueError("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.")
    if "A" in text or all(event in text for event in _EVENTS[:-1]):
        shown = "A"
    else:
        shown = "".join(event for event in _EVENTS if event in text)
    return shown + "".join(letter for letter in "KEm" if letter in text)


def _parse_percentiles(text: str, _now: Any) -> tuple[float, ...]:
    try:
        values = tuple(map(float, text.split()))
    except ValueError:
        raise ValueError("Invalid latency-tracking-info-percentiles parameters") from None
    if not all(0 <= value <= 100 for value in values):
        raise ValueError("latency-tracking-info-percentiles parameters should sit between [0.0,100.0]")
    return values


_CLASSES: Final = {"normal": "normal", "slave": "replica", "replica": "replica", "pubsub": "pubsub"}


def _parse_limits(text: str, now: BufferLimits | None) -> BufferLimits:
    """Classes that are not named stay as they are."""
    words = text.split()
    if not words or len(words) % 4:
        raise ValueError("Wrong number of arguments in buffer limit configuration.")
    limits = now or BufferLimits(*[BufferLimit(0, 0, 0)] * 3)
    for name, hard, soft, seconds in zip(*[iter(words)] * 4, strict=True):
        if name.lower() not in _CLASSES:
            raise ValueError("Invalid client class specified in buffer limit configuration.")
        if not seconds.isdecimal():
            raise ValueError("Error in hard, soft or soft_seconds setting in buffer limit configuration.")
        try:
            limit = BufferLimit(_bytes(hard), _bytes(soft), int(seconds))
        except ValueError:
            raise ValueError("Error in hard, soft or soft_seconds setting in buffer limit configuration.") from None
        limits = limits._replace(**{_CLASSES[name.lower()]: limit})
    return limits


def _show_limits(limits: BufferLimits) -> str:
    named = zip(("normal", "slave", "pubsub"), limits, strict=True)
    return " ".join(f"{name} {limit.hard_bytes} {limit.soft_bytes} {limit.soft_seconds}" for name, limit in named)


SHARE: Final = ParameterKind(_parse_share, lambda value: str(value) if value >= 0 else f"{-value}%")
TEXT: Final = ParameterKind(lambda text, _now: text)
SECRET: Final = ParameterKind(lambda text, _now: text, lambda there: HIDDEN if there else "", bool)
YES_NO: Final = ParameterKind(_parse_yes_no, lambda value: "yes" if value else "no")
EVENTS: Final = ParameterKind(_parse_events)
PERCENTILES: Final = ParameterKind(_parse_percentiles, lambda values: " ".join(f"{value:g}" for value in values))
BUFFER_LIMITS: Final = ParameterKind(_parse_limits, _show_limits)
