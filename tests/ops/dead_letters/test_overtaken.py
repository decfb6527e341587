"""Events that came into the log behind a dead letter, also where an open transaction holds them up."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import AsyncMock

import pytest

from ops.dead_letters.overtaken import Resendable, look_behind
from slotlog.events import encode
from slotlog.log import Entry
from slotlog.log.embedded.embedded_log import EmbeddedLog


async def test_what_cannot_be_read_yet_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A later event of the key, and the record itself, count behind the stable end of the log, too."""
    log = EmbeddedLog(tmp_path / "log", topic="t", partitions=1)
    await log.start()
    try:
        events = [encode("SET", [b"b", b"1"]), encode("SET", [b"a", b"1"], id=b"x"), encode("SET", [b"a", b"2"])]
        await log.append([Entry(0, None, event) for event in events])
        monkeypatch.setattr(log, "end_offset", AsyncMock(return_value=1))
        monkeypatch.setattr(log, "high_watermark", AsyncMock(return_value=3))
        candidate = Resendable(0, 0, frozenset({(0, b"a")}), b"x")
        await look_behind(log, [candidate], [])
    finally:
        await log.close()

    assert (1, 2) == (candidate.copy_at, candidate.first_later)
