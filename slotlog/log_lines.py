"""Log lines of the library: an event's name with fields, through the standard library's loggers.

A service sees `topic_created topic='board' partitions=4` in its own log, from loggers named `slotlog.…`. A formatter
that writes fields apart finds them in `record.msg`, which is a `Line`.
"""

from __future__ import annotations

import logging
from typing import Any


class Line:
    """One line: an event with its fields.

    Attributes:
        event: what happened, in words joined by underscores.
        fields: what is known of it.
    """

    __slots__ = ("event", "fields")

    def __init__(self, event: str, fields: dict[str, Any]) -> None:
        self.event = event
        self.fields = fields

    def __str__(self) -> str:
        return " ".join([self.event, *(f"{name}={value!r}" for name, value in self.fields.items())])


class LineLogger:
    """Writes such lines.

    Args:
        name: of the standard library's logger.
    """

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def debug(self, event: str, *, exc_info: BaseException | None = None, **fields: Any) -> None:
        """Write a line that helps to find a fault."""
        self._write(logging.DEBUG, event, fields, exc_info)

    def info(self, event: str, **fields: Any) -> None:
        """Write a line about a step in the life of the log."""
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Write a line because of which an operator may have to act."""
        self._write(logging.WARNING, event, fields)

    def _write(self, level: int, event: str, fields: dict[str, Any], exc_info: BaseException | None = None) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, Line(event, fields), exc_info=exc_info, stacklevel=3)
