"""What takes its time beside the machines, and may be suspended all the same: the encoding of a reply to a command.

Not that of a message to many clients, whose sender goes through them one by one.
"""

from __future__ import annotations

from types import CodeType
from typing import Final

from ingest.applying.slices import Callers
from resp.clients import fast_path
from resp.clients.pending_reply import PendingReply
from resp.clients.session import Session
from resp.wire.encode import encode2, encode3

_ANSWERS: Final = frozenset(
    {Session.answer.__code__, PendingReply.answer.__code__, PendingReply.fill.__code__, fast_path.read.__code__}
)
ENTRANCES: Final[dict[CodeType, Callers]] = {encode2.__code__: _ANSWERS, encode3.__code__: _ANSWERS}
"""See `Slices.entrances`."""
