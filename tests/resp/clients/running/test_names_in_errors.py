"""Errors that repeat the command's name have it as the client has sent it, whichever way the command goes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.real.oracle import Connection
from tests.resp.harness import pipeline, serving

NAMES: Final = ("geosearch", "GEOSEARCH", "GeoSearch", "geosearchstore", "GEOSEARCHSTORE", "GeoSearchStore")


def lines_of(name: str) -> tuple[str, str]:
    """Searches without a middle, and without a shape."""
    keys = "d s" if name.upper().endswith("STORE") else "s"
    return f"{name} {keys} BYRADIUS 1 km ASC ASC ASC", f"{name} {keys} FROMLONLAT 1 1 ASC ASC"


@pytest.mark.parametrize("name", NAMES)
async def test_name_is_repeated_as_sent(name: str, tmp_path: Path, oracle: Connection) -> None:
    """Alone, behind a write, in a transaction that reads and in one that writes: the text is the oracle's."""
    lines = lines_of(name)
    alone = [oracle.call(*line.split()) for line in lines]
    assert all(error.text.endswith(f" for {name}".encode()) for error in alone)
    async with serving(tmp_path / "log", cleans=False) as live:
        client = await live.client()
        found = [await client.call(*line.split()) for line in lines]
        behind = await pipeline(client, "INCR n", lines[0], "INCR n", lines[1])
        reading = await pipeline(client, "MULTI", *lines, "EXEC")
        writing = await pipeline(client, "MULTI", "INCR n", *lines, "EXEC")

    assert alone == found == behind[1::2] == reading[-1] == writing[-1][1:]


async def test_event_of_its_own_has_its_own_text(tmp_path: Path) -> None:
    """The text of what is sent once with an id is repeated as it was sent; a repetition has that of the log."""
    line = "SLOTLOG ONCE i geosearchstore d s BYRADIUS 1 km ASC ASC"
    async with serving(tmp_path / "log", cleans=False) as live:
        client = await live.client()
        first, again = await pipeline(client, line, line)

    text = b"ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for "
    assert (text + b"geosearchstore", text + b"GEOSEARCHSTORE") == (first.text, again.text)
