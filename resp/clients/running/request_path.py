"""Gives the way of commands in C what it needs of their items."""

from __future__ import annotations

from types import ModuleType

from resp.clients.running.pending_reply import PendingReply
from resp.writes.items import ITEM_BYTES
from slotlog.log import Entry
from slotlog.shared.limits import ARGUMENTS_MAX, RECORD_BYTES_MAX


def teach_items(hot: ModuleType | None) -> None:
    """Let the part in C (`engine/native/_hot.pyi`), if there is one, know how items are made."""
    if hot is not None:
        hot.configure_items(PendingReply, Entry, ITEM_BYTES, RECORD_BYTES_MAX, ARGUMENTS_MAX)
