"""Log lines of the client library, as a test looks at them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from slotlog.log_lines import Line


class _Collector(logging.Handler):
    def __init__(self, lines: list[dict[str, Any]]) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        assert isinstance(record.msg, Line)
        self._lines.append({"event": record.msg.event, "log_level": record.levelname.lower(), **record.msg.fields})


@contextmanager
def captured_lines() -> Iterator[list[dict[str, Any]]]:
    """The lines that are written inside, each with its event, level and fields."""
    lines: list[dict[str, Any]] = []
    logger, collector = logging.getLogger("slotlog"), _Collector(lines)
    level = logger.level
    logger.addHandler(collector)
    logger.setLevel(logging.DEBUG)
    try:
        yield lines
    finally:
        logger.removeHandler(collector)
        logger.setLevel(level)
