"""Sizes batches: by records, by bytes, and by how long the last one held the event loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from slotlog.log import LogRecord

BATCH_RECORDS_MAX: Final = 1000
BATCH_BYTES_MAX: Final = 4 * 1024 * 1024
LOOP_SECONDS_MAX: Final = 0.005
_RECORDS_MIN: Final = 16


class BatchSize:
    """The size of the next batch.

    Args:
        records_max: the largest batch; it begins with this one.
        loop_seconds_max: how long one may hold the event loop, about; infinite where nobody else waits for that.
    """

    def __init__(self, records_max: int, loop_seconds_max: float) -> None:
        self._records_max = self._records = records_max
        self._loop_seconds_max = loop_seconds_max

    def cut(self, records: Sequence[LogRecord]) -> tuple[Sequence[LogRecord], int]:
        """The first records, which are the next batch, and how large their values are."""
        count = self._records
        while True:
            batch = records[:count]
            value_bytes = sum([len(record[3]) for record in batch if record[3] is not None])
            if value_bytes <= BATCH_BYTES_MAX or count == 1:
                return batch, value_bytes
            count = max(1, count // 2)

    def adapt(self, seconds: float) -> None:
        """Size the next batch so that it holds the event loop for about that long at most: the last one took this."""
        if seconds > self._loop_seconds_max:
            fitting = int(self._records * self._loop_seconds_max / seconds)
            self._records = min(self._records_max, max(_RECORDS_MIN, fitting))
        elif self._records < self._records_max:
            self._records = min(self._records_max, self._records * 2)
