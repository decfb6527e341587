"""Gives the way of commands in C what it needs of their clients and items."""

from __future__ import annotations

from types import ModuleType

from resp.catalog.plans import Plan
from resp.clients.output import Output
from resp.clients.running.inbox import Inbox
from resp.clients.running.pending_reply import PendingReply
from resp.clients.session import Session
from resp.clients.window import Window
from resp.statistics.accounting import Accounting
from resp.statistics.stats import Stats
from resp.wire.protocol import Parser
from resp.writes.answers import Answers
from resp.writes.items import ITEM_BYTES
from resp.writes.outbox import Outbox
from slotlog.distribution import Distribution
from slotlog.log import Entry
from slotlog.shared.limits import ARGUMENTS_MAX, RECORD_BYTES_MAX


def teach(hot: ModuleType | None) -> None:
    """Let the part in C (`engine/native/_hot.pyi`), if there is one, know how items and clients are made."""
    if hot is not None:
        hot.configure_items(PendingReply, Entry, ITEM_BYTES, RECORD_BYTES_MAX, ARGUMENTS_MAX)
        counters = Stats, Distribution, Accounting, Plan, Answers, Outbox
        hot.configure_clients(Session, Output, Inbox, Parser, Window, *counters)
