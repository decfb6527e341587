"""Log lines: structlog, console on a terminal, one JSON object a line elsewhere, always on stderr.

Lines tell of a process' life (start, stop, a partition set aside), never of single events: a JSON line costs 9 us. The
lines of aiokafka and asyncio come through the same processors.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import MutableMapping
from typing import Any, Final

import structlog

_SECRET: Final = re.compile(r"passw|secret|token|sasl_plain|credential", re.IGNORECASE)

# Local variables hold customers' values, and settings with passwords in clear: no traceback may show them.
_WITHOUT_LOCALS: Final = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)


def hide_secrets(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Replace the value of any field whose name looks like a secret's."""
    for name in event:
        if _SECRET.search(name):
            event[name] = "***"
    return event


def configure_logging(level: str = "info", *, json: bool | None = None) -> None:
    """Set up structlog and the standard library's loggers.

    Args:
        level: debug, info, warning or error.
        json: None chooses by whether stderr is a terminal.
    """
    as_json = not sys.stderr.isatty() if json is None else json
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        hide_secrets,
    ]
    renderers: list[Any] = (
        [structlog.processors.ExceptionRenderer(_WITHOUT_LOCALS), structlog.processors.JSONRenderer()]
        if as_json
        else [structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
    )
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderers],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    # With its broker away, aiokafka writes a hundred errors a second; the consumer reports it once, as its condition.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
