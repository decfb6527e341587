"""Entrances to slices outside the machine: the encoding of a long reply.

A message to many clients is no entrance: its sender encodes for one client after another.
"""

from __future__ import annotations

from types import CodeType
from typing import Final

from ingest.applying.slicing.slices import Callers
from resp.clients.running import fast_path
from resp.clients.running.pending_reply import PendingReply
from resp.clients.session import Session
from resp.wire.encode import encode2, encode3

_ANSWERS: Final = frozenset(
    {Session.answer.__code__, PendingReply.answer.__code__, PendingReply.fill.__code__, fast_path.read.__code__}
)
ENTRANCES: Final[dict[CodeType, Callers]] = {encode2.__code__: _ANSWERS, encode3.__code__: _ANSWERS}
"""See `Slices.entrances`."""
