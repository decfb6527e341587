"""Random moments: a read of the past, a replay that is stopped there and a plain model agree."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random

import pytest

from engine.proof.digest import Digest, digest
from engine.proof.walk import live_keys
from ops.cli.reply_text import as_text
from ops.config import Settings, load_settings
from ops.past.answering import Read, answer
from ops.past.kept import KeptStates
from ops.snapshots.starting import start_from_snapshot
from ops.state.opening.directories import reading
from ops.state.rebuilding.building import settings_of_new
from ops.state.rebuilding.replay import replay
from ops.state.rebuilding.replay_plan import parse_until
from slotlog.log import open_log
from tests.layouts import layout_of
from tests.ops.past.moments import Known, Moment, every_command, flights, folded, known_events, moments
from tests.ops.verbs import succeed

_KEYS = 3
"""Of each moment that are read one by one."""

_AT_ONCE = 50
"""Events of an append: a broker gives them one time."""


async def fill(settings: Settings, known: list[Known]) -> list[Known]:
    """Append these entries to the log; gives them with the times that they have there."""
    log = open_log(settings.log_url, topic=settings.topic, partitions=1, kafka=settings.kafka)
    await log.start()
    positions = []
    for begin in range(0, len(known), _AT_ONCE):
        positions += await log.append([each.entry for each in known[begin : begin + _AT_ONCE]])
    await log.close()
    return [
        Known(each.entry._replace(time_ms=position.time_ms), each.told)
        for each, position in zip(known, positions, strict=True)
    ]


async def compare(settings: Settings, found: list[Moment], models: Mapping[int, Digest]) -> None:
    """At each moment: the whole state, and some keys as a client and the verb get them, are those of a replay."""
    states, layout, random = KeptStates(settings), layout_of(), Random(len(found))
    try:
        for number, (text, offset) in enumerate(found):
            to = settings.data.with_name(f"replayed-{number}")
            (replayed,) = await replay(settings, to, parse_until(text), start=start_from_snapshot)
            assert (text, offset) == (text, replayed.next_offset)
            assert models.get(offset, replayed.digest) == replayed.digest

            with reading(settings_of_new(settings, to, None), 0) as (store, machine):
                keys = [(each.db, each.name) for each in live_keys(store, layout, machine.clock_ms)]
                some = random.sample(keys, min(_KEYS, len(keys)))
                values = [machine.read(b"DUMP", [name], db) for db, name in some]
            asked = [await answer(settings, states, Read(0, text, b"DUMP", [name], db)) for db, name in some]
            assert values == asked
            for (db, name), value in list(zip(some, values, strict=True))[: number % 5 == 0]:
                words = ["at", text, "--data", settings.data, "--log", settings.log_url, "--topic", settings.topic]
                assert f"{as_text(value)}\n" == succeed(*words, "--db", db, "DUMP", os.fsdecode(name))

            whole = await states.at(0, parse_until(text))
            assert replayed.digest == digest(whole.store, layout, whole.machine.clock_ms)
            shutil.rmtree(to)
    finally:
        await states.close()


def embedded(tmp_path: Path) -> Settings:
    """Of an empty directory."""
    settings = load_settings(data=tmp_path / "data")
    settings.data.mkdir()
    return settings


@pytest.mark.parametrize("log", [flights, known_events])
async def test_the_past_is_that_of_a_plain_model(tmp_path: Path, log: Callable[[], list[Known]]) -> None:
    """At random moments of the flights, and of a log with all commands that the plain model knows."""
    settings = embedded(tmp_path)
    known = await fill(settings, log())
    found = moments(known, seed=3)
    await compare(settings, found, dict(folded(known, {moment.offset for moment in found})))


async def test_the_past_of_every_command(tmp_path: Path) -> None:
    """At random moments of a log with every command that writes, reads of the past find what replays make."""
    settings = embedded(tmp_path)
    known = await fill(settings, every_command())
    await compare(settings, moments(known, seed=4), {})


async def test_the_past_in_kafka(tmp_path: Path, kafka_bootstrap: str) -> None:
    """The same holds where the log is a topic, with the times that its broker has given."""
    settings = embedded(tmp_path).model_copy(
        update={"log": f"kafka://{kafka_bootstrap}", "topic": f"past-{secrets.token_hex(4)}"}
    )
    known = await fill(settings, known_events(seed=8)[:400])
    found = moments(known, seed=5)[:3]
    await compare(settings, found, dict(folded(known, {moment.offset for moment in found})))
