"""Log lines by structlog on stderr: for people on a terminal, elsewhere one JSON object a line.

Lines tell of a process' life (start, stop, a partition set aside), never of single events: a JSON line costs 9 us. The
lines of aiokafka and asyncio come through the same processors.
"""

from __future__ import annotations

import logging
import re
import sys
import traceback
from collections.abc import Iterator, MutableMapping, Sequence
from time import monotonic
from types import TracebackType
from typing import Any, Final, TextIO

import structlog

from slotlog.log_lines import Line
from slotlog.shared.shown_errors import named_error, shown_error

_MINUTE_SECONDS: Final = 60.0
_KINDS_MAX: Final = 1000
_SECRET: Final = re.compile(r"passw|secret|token|sasl_plain|credential", re.IGNORECASE)

# Local variables hold customers' values, and settings with passwords in clear: no traceback may show them.
_WITHOUT_LOCALS: Final = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)


_ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None]


def shown_traceback(exc_info: _ExcInfo, seen: set[int] | None = None) -> list[dict[str, Any]]:
    """An exception and its causes for JSON: where each was raised, and its text where that cannot repeat a value.

    Those of a group have theirs; one that is there already, by its id in `seen`, is left out.
    """
    seen = set() if seen is None else seen
    stacks: list[dict[str, Any]] = []
    before: BaseException | None = None
    for error in _with_causes(exc_info[1], seen):
        stack = _WITHOUT_LOCALS(_info_of(error))[0]
        stack.update(exc_value=shown_error(error), exc_notes=[], syntax_error=None)
        stack["is_cause"] = before is not None and before.__cause__ is error
        stack["exceptions"] = [shown for one in _members(error) if (shown := shown_traceback(_info_of(one), seen))]
        stacks.append(stack)
        before = error
    return stacks


def print_traceback(out: TextIO, exc_info: _ExcInfo, seen: set[int] | None = None) -> None:
    """The same for a terminal, the first cause first, and behind a group what is in it."""
    seen = set() if seen is None else seen
    for error in reversed(list(_with_causes(exc_info[1], seen))):
        out.writelines([*traceback.format_tb(error.__traceback__), f"{named_error(error)}\n"])
        for one in _members(error):
            print_traceback(out, _info_of(one), seen)


def _info_of(error: BaseException) -> _ExcInfo:
    return type(error), error, error.__traceback__


def _members(error: BaseException) -> Sequence[BaseException]:
    return error.exceptions if isinstance(error, BaseExceptionGroup) else ()


def _with_causes(error: BaseException, seen: set[int]) -> Iterator[BaseException]:
    """An exception, what it was raised from or because of, and so on, as far as that was raised itself."""
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        context = None if cause.__suppress_context__ else cause.__context__
        cause = next((each for each in (cause.__cause__, context) if each is not None and each.__traceback__), None)


def hide_secrets(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Replace the value of any field whose name looks like a secret's."""
    for name in event:
        if _SECRET.search(name):
            event[name] = "***"
    return event


def with_fields(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Take a line of the client library apart: its fields become fields here."""
    line = event["_record"].msg
    if isinstance(line, Line):
        event.update(line.fields, event=line.event)
    return event


def is_no_rubbish(record: logging.LogRecord) -> bool:
    """Whether a line of aiohttp's server is about more than a client that speaks no HTTP: that has its answer, 400.

    Such a line would repeat the client's address and what it has sent.
    """
    error = record.exc_info[1] if record.exc_info else None
    return not type(error).__module__.startswith("aiohttp.http_exceptions")


def say_no_more(record: logging.LogRecord) -> bool:
    """Leave the first line of a message of asyncio's: those below repeat the exception of a task that nobody asked."""
    record.msg, record.args = record.getMessage().partition("\n")[0], ()
    return True


def without_traceback(record: logging.LogRecord) -> bool:
    """Leave of a line of aiokafka its text, and the name of the exception: where it was raised helps no operator.

    While a broker comes up or goes away, aiokafka writes tracebacks of what it deals with by itself.
    """
    if record.name.startswith("aiokafka") and record.exc_info and record.exc_info[1] is not None:
        record.msg, record.args = f"{record.getMessage()}: {named_error(record.exc_info[1])}", ()
        record.exc_info = record.exc_text = None
    return True


class OnceAMinute(logging.Filter):
    """Each kind of line of the loggers under `name` once a minute, with how many like it came meanwhile.

    With its broker away, aiokafka writes a hundred errors a second. Most of them the consumer reports once, as its
    condition; but why a connection is refused, a wrong password say, stands in these alone.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._said: dict[tuple[str, str], tuple[float, int]] = {}  # -> when, and how many were left out since

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is written."""
        if not super().filter(record):
            return True
        kind = (record.name, str(record.msg))
        said_at, left_out = self._said.get(kind, (-_MINUTE_SECONDS, 0))
        if monotonic() - said_at < _MINUTE_SECONDS:
            self._said[kind] = said_at, left_out + 1
            return False
        if len(self._said) >= _KINDS_MAX:
            self._said.clear()
        self._said[kind] = monotonic(), 0
        if left_out:
            record.msg, record.args = f"{record.getMessage()} (and {left_out} like it before)", ()
        return True


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
        [structlog.processors.ExceptionRenderer(shown_traceback), structlog.processors.JSONRenderer()]
        if as_json
        else [structlog.dev.ConsoleRenderer(exception_formatter=print_traceback)]
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
            foreign_pre_chain=[with_fields, *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderers],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    handler.addFilter(OnceAMinute("aiokafka"))
    handler.addFilter(without_traceback)
    # Below warnings it writes requests, with what is in them.
    logging.getLogger("aiokafka").setLevel(max(logging.WARNING, root.level))
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    logging.getLogger("aiohttp.server").addFilter(is_no_rubbish)
    logging.getLogger("asyncio").addFilter(say_no_more)
