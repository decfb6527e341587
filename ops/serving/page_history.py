"""Answers the page's questions for the history of a key, from the process that reads the past."""

from __future__ import annotations

from engine.values.replies import Reply
from ops.addresses import is_loopback, parse_address
from ops.past.answering import HistoryOf
from ops.serving.http_history import HistoryAnswers
from ops.serving.running import Running
from slotlog.shared.slots import partition_of, slot


def history_of(service: Running) -> HistoryAnswers:
    """For the page of one service."""

    async def ask(key: bytes, db: int, count: int) -> Reply:
        partition = partition_of(slot(key), service.settings.partitions)
        return await service.past.ask(HistoryOf(partition, key, db, count, 0, None, values=True))

    return HistoryAnswers(ask, lambda: refusal(service))


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
