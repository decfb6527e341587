"""Applying what a fetch gave in a partition whose own appends are applied from memory."""

from __future__ import annotations

from collections.abc import Sequence

from ingest.applying.owned_partition import Beside, Seat
from ingest.applying.worker import HeadersOf
from ingest.log import LogRecord


async def apply_beside(
    seat: Seat, beside: Beside, records: Sequence[LogRecord], end: int, headers_of: HeadersOf
) -> None:
    """Apply what a fetch gave up to where own appends stand, let those be applied from memory, and so on.

    What was fetched was read before the appends that are sent from now on. So once those under way have settled, it is
    known which of the records are own ones.
    """
    await beside.settled()
    while True:
        await beside.idle()
        if beside.in_trouble:
            await beside.advance_carefully()
            await beside.idle()
        start, own = seat.worker.machine.next_offset, beside.first_offset
        until = end if own is None else min(end, own)
        if start >= until:
            return
        mine = [record for record in records if start <= record[0] < until]
        beside.hold()
        try:
            await seat.worker.apply(mine, start, until, headers_of)
        finally:
            beside.release()
