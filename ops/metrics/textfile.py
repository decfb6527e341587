"""Writes the metrics of a process without HTTP server to a file for node_exporter's textfile collector."""

from __future__ import annotations

from pathlib import Path
from time import monotonic
from typing import Final

from ops.metrics.catalog import GROUPS
from ops.metrics.readings import Readings
from slotlog.clock import now_ms

_WRITE_SECONDS: Final = 5.0


class ReplayFile:
    """Writes the progress of a replay to a file.

    Args:
        path: the file; replaced as a whole each time.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._began: float | None = None
        self._write_at = 0.0

    def note(self, done: int, total: int) -> None:
        """Note how many events are applied: written every 5 s, at first and at the end. Raises OSError."""
        now = monotonic()
        if self._began is None:
            self._began = now
        if now < self._write_at and done < total:
            return
        self._write_at = now + _WRITE_SECONDS
        readings = Readings()
        readings.add("replay_done_events", done)
        readings.add("replay_total_events", total)
        if done:
            seconds_left = (now - self._began) * (total - done) / done
            readings.add("replay_end_timestamp_seconds", now_ms() / 1000 + seconds_left)
        new = self._path.with_name(f"{self._path.name}.new")  # which the collector passes by: it is no *.prom
        new.write_text("".join(map(readings.text_of, GROUPS["Replay"])))
        new.replace(self._path)
