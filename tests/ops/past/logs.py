"""Logs for the tests of the past."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

from ops.config import load_settings
from slotlog.events import encode
from slotlog.log import Entry, open_log
from slotlog.routing import route
from tests.differential.strategy import participants, random_command, rendered
from tests.layouts import home_of

START_MS: Final = 1_700_000_000_000
HOME: Final = home_of("slotlog", 0, 1)

Line = tuple[int, str, list[Any]]
"""Milliseconds after `START_MS`, command, arguments."""


def entry(line: Line, **fields: Any) -> Entry:
    """The record of an event."""
    after_ms, name, args = line
    return Entry(0, None, encode(name, args, **fields), START_MS + after_ms)


def write_log(data: Path, lines: Iterable[Line | Entry]) -> Path:
    """A data directory with an embedded log of these events, and no state."""
    settings = load_settings(data=data)
    entries = [each if isinstance(each, Entry) else entry(each) for each in lines]

    data.mkdir()

    async def append() -> None:
        log = open_log(settings.log_url, topic=settings.topic, partitions=1)
        await log.start()
        await log.append(entries)
        await log.close()

    asyncio.run(append())
    return data


def random_entries(seed: int, commands: int) -> Sequence[Entry]:
    """Random writes, some in transactions, some with an id that comes again, in three databases."""
    random = Random(seed)
    specs = participants()
    writes = [name for name, spec in specs.items() if spec.write and not spec.physical]
    inner = [name for name in writes if specs[name].transactional]
    entries = []
    now_ms = START_MS
    for number in range(commands):
        now_ms += random.randrange(100)
        name = random.choice(writes)
        args: list[Any] = rendered(random_command(random, name).args, number % 50)
        if random.randrange(6) == 0:
            some = random.choices(inner, k=random.randrange(1, 4))
            name, args = b"EXEC", [[each, *rendered(random_command(random, each).args, 0)] for each in some]
        db = max(0, random.randrange(12) - 9)
        event_id = b"%d" % random.randrange(20) if random.randrange(8) == 0 else None
        value = encode(name, args, id=event_id, db=db)
        entries.append(Entry(0, route(name, args, 1, db).key, value, now_ms))
    return entries
