"""A process of a service sends the error that ends it to the one that started it."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from importlib import import_module
from inspect import signature
from multiprocessing import Pipe
from typing import Any, Final, get_type_hints

import pytest

from tests.tidy.source import PRODUCT, modules

EXAMPLES: Final[dict[type, Any]] = {int: 7, str: "a text", bytes: b"\xffword", bool: True}
"""An argument of each type that an error is made from; of others `example` knows."""


def errors_with_an_init() -> list[type[BaseException]]:
    """Each error that the product defines with an `__init__` of its own."""
    for module in modules(*PRODUCT):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    return sorted(
        (each for each in subclasses(BaseException) if "__init__" in vars(each)),
        key=lambda each: (each.__module__, each.__qualname__),
    )


def subclasses(base: type[BaseException]) -> Iterator[type[BaseException]]:
    """Those of the product, each as often as it is reached."""
    for each in base.__subclasses__():
        if each.__module__.partition(".")[0] in PRODUCT:
            yield each
        yield from subclasses(each)


def example(kind: type) -> Any:
    """An argument of a type."""
    if issubclass(kind, Enum):
        return next(iter(kind))
    return kind("it broke") if issubclass(kind, BaseException) else EXAMPLES[kind]


def made(kind: type[BaseException]) -> BaseException:
    """An error, with an argument for each parameter of its `__init__`."""
    hints = get_type_hints(kind.__init__)
    parameters = list(signature(kind).parameters.values())
    given = {each.name: example(hints[each.name]) for each in parameters}
    named = {each.name: given.pop(each.name) for each in parameters if each.kind is each.KEYWORD_ONLY}
    return kind(*given.values(), **named)


def carried(error: BaseException) -> tuple[type, str, dict[str, str]]:
    """All that an error carries: its class, text and attributes."""
    return type(error), str(error), {name: repr(value) for name, value in vars(error).items()}


def received(error: BaseException) -> BaseException:
    """The error as another process gets it."""
    receiver, sender = Pipe(duplex=False)
    with receiver, sender:
        sender.send(error)
        got = receiver.recv()
    assert isinstance(got, BaseException)
    return got


@pytest.mark.parametrize("kind", dict.fromkeys(errors_with_an_init()))
def test_an_error_with_an_init_of_its_own_reaches_another_process(kind: type[BaseException]) -> None:
    """It arrives with its class, its text and all its attributes."""
    error = made(kind)
    error.add_note("a note")

    assert carried(error) == carried(received(error))


def test_the_errors_that_end_a_process_are_among_them() -> None:
    """The search finds those of the log and of the engine, and private ones."""
    names = {each.__name__ for each in errors_with_an_init()}

    assert {"LogMismatchError", "LogRecordError", "PartitionStoppedError", "_UnreadError"} <= names
