"""Makes a client's write a record of the log, from which `slotlog.events.decode` reads what is applied."""

from __future__ import annotations

from typing import Any, Final

from engine.errors import CommandError
from slotlog.events import encode
from slotlog.log import Entry
from slotlog.shared.errors import EventError
from slotlog.shared.limits import ARGUMENTS_MAX, RECORD_BYTES_MAX
from slotlog.shared.slots import slot

TOO_LARGE: Final = CommandError(f"ERR an event may have {RECORD_BYTES_MAX} bytes; nothing was written")
"""Also what a command is answered whose arguments are longer than that together, whatever it would do."""

_TOO_MANY: Final = CommandError(f"ERR an event may have {ARGUMENTS_MAX} arguments; nothing was written")


def event_entry(
    partition: int,
    name: bytes,
    args: list[Any],
    keys: list[bytes],
    *,
    db: int = 0,
    event_id: bytes | None = None,
    watch_id: bytes | None = None,
) -> Entry:
    """The record of one event, of an EXEC with `args` as a list of commands.

    Raises:
        CommandError: no log takes it, or no worker would apply it.
    """
    count = len(args) + (sum(map(len, args)) if name == b"EXEC" else 0)
    if count > ARGUMENTS_MAX:
        raise _TOO_MANY
    try:
        value = encode(name, args, id=event_id, db=db, session=watch_id)
    except EventError as error:
        raise CommandError(f"ERR {error.reason}") from error
    if len(value) > RECORD_BYTES_MAX:
        raise TOO_LARGE
    return Entry(partition, slot(keys[0]).to_bytes(2, "big") if keys else None, value)
