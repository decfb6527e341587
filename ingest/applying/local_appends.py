"""Applies fetched records in a partition whose own appends are applied from memory."""

from __future__ import annotations

from ingest.applying.partitions.owned_partition import LocalAppends, OwnedPartition
from slotlog.log import HeadersOf, LogRecord
from slotlog.shared.errors import InvariantError


async def apply_fetched(
    owned: OwnedPartition, local_appends: LocalAppends, records: list[LogRecord], end: int, headers_of: HeadersOf
) -> None:
    """Apply what a fetch gave up to where own appends stand, let those be applied from memory, and so on.

    What was fetched was read before the appends that are sent from now on. So once those under way have settled, it is
    known which of the records are own ones. The records are taken out of the list as they are applied.

    Raises:
        InvariantError: own appends are left unapplied, and what was fetched with them.
        Exception: as `Worker.apply`.
    """
    await local_appends.settled()
    while True:
        await local_appends.idle(end)
        while local_appends.in_trouble:
            await local_appends.advance_carefully()
            await local_appends.idle(end)
        start, own = owned.worker.machine.next_offset, local_appends.first_offset
        until = end if own is None else min(end, own)
        if start >= until:
            if start < end and owned.worker.is_open:  # the next fetch would go on behind this one
                message = f"own writes from offset {own} on are left, and a fetch up to offset {end} with them"
                raise InvariantError(message)
            return
        mine = [record for record in records if start <= record[0] < until]
        records[:] = [record for record in records if record[0] >= until]
        local_appends.hold()
        try:
            await owned.worker.apply(mine, start, until, headers_of)
        finally:
            local_appends.release()
