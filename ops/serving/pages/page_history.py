"""Answers the page's questions for the history of a key, from the process that reads the past."""

from __future__ import annotations

from typing import Any, Final

from engine.errors import CommandError
from ops.addresses import is_loopback, parse_address
from ops.past.answering import HistoryOf
from ops.serving.pages.http_history import Answer, shown_event
from ops.serving.running import Running
from slotlog.shared.slots import partition_of, slot

_EVENTS_MAX: Final = 50


def history_of(service: Running) -> Answer:
    """The answers of a service, or of one process of it."""

    async def answer(key: bytes, db: int) -> tuple[int, dict[str, Any]]:
        if refused := refusal(service):
            return 403, {"error": refused}
        partition = partition_of(slot(key), service.settings.partitions)
        try:
            rows = await service.past.ask(HistoryOf(partition, key, db, _EVENTS_MAX, 0, None, values=True))
        except CommandError as error:
            return 503, {"error": error.message}
        return 200, {"events": [shown_event(dict(row)) for row in rows]}

    return answer


def refusal(service: Running) -> str:
    """Why the page shows no histories: who reaches it is not known to be one who may read values; empty: it does."""
    settings, server = service.settings, service.resp
    if settings.http_password.get_secret_value():
        return ""
    if not is_loopback(parse_address(settings.http)[0]) or (
        server is not None and not server.acl.default_user.needs_no_password
    ):
        return "values are shown with a password alone: set SLOTLOG_HTTP_PASSWORD"
    return ""
