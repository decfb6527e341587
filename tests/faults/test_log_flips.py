"""Random flipped bits of an embedded log are named or change nothing. None changes a state in silence.

`make nightly` flips 1,000 of them, LOG_FLIPS any other number.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import shutil
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from ingest.applying.batches.worker import Worker
from ingest.applying.consumer import Consumer
from ingest.dead_letters.stores import open_dead_letters
from ingest.reporting.observer import NullObserver
from ops.config import Settings, load_settings
from ops.state.opening.directories import home_of, store_opener
from slotlog.events import encode
from slotlog.log import Entry
from slotlog.log.embedded.embedded_log import EmbeddedLog
from slotlog.shared.slots import partition_of, slot
from tests.ops.verbs import run
from tests.slotlog.log.embedded.proof.test_mark import write_mark

PARTITIONS = 3
EVENTS = 400
FLIPS = int(os.environ.get("LOG_FLIPS", "24"))
SEED = 12
NO_EVENT = b"no event at all"
VERBS = ("replay", "check", "deadletters")

logger = logging.getLogger(__name__)


class Said(NamedTuple):
    """What the verbs say of a log.

    Attributes:
        codes: the exit codes of `replay`, `check --log` and `deadletters list`.
        content: the digest of the replay, and the dead letters.
        errors: what stands on stderr or is printed as damage.
    """

    codes: tuple[int, int, int]
    content: tuple[str, str]
    errors: str


def _events(choose: random.Random) -> list[Entry]:
    """Keys of all partitions, overwritten values, transactions, large values, and records that are no events."""
    entries = []
    for number in range(EVENTS):
        key = b"key:%d" % choose.randrange(60)
        partition = partition_of(slot(key), PARTITIONS)
        value = encode("SET", [key, b"%d" % number])
        if number % 10 == 3:
            value = encode("EXEC", [["SET", key, b"%d" % number], ["EXPIRE", key, "1000000"], ["APPEND", key, "x"]])
        elif number % 40 == 7:
            value = encode("SET", [key, choose.randbytes(10_000)])
        elif number % 50 == 11:
            value = NO_EVENT
        entries.append(Entry(partition, slot(key).to_bytes(2, "big"), value, 1_700_000_000_000 + number))
    return entries


def _copy(path: Path, target: Path) -> None:
    target.mkdir()
    for suffix in ("", "-wal", "-head"):
        if path.with_name(path.name + suffix).exists():
            shutil.copy(path.with_name(path.name + suffix), target)


async def _write(settings: Settings, path: Path, root: Path) -> None:
    """Make the log, apply it, and leave it behind twice: as a crash and as an orderly end leave it."""
    log = EmbeddedLog(path, topic=settings.topic, partitions=PARTITIONS)
    await log.start()
    entries = _events(random.Random(SEED))
    for at in range(0, len(entries), 7):
        await log.append(entries[at : at + 7])
    ends = {partition: await log.end_offset(partition) for partition in range(PARTITIONS)}
    dead_letters = open_dead_letters(log)
    workers = {
        each: Worker(home_of(settings, each), log, store_opener(settings, settings.data), dead_letters, NullObserver())
        for each in ends
    }
    consumer = Consumer(log, workers, NullObserver())
    await consumer.open()
    await consumer.run_to(ends)
    consumer.close()
    await write_mark(log)
    _copy(path, root / "crashed")
    await log.close()
    _copy(path, root / "closed")


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two directories, `crashed` with a `-wal` that holds all of the log, and `closed` without one."""
    root = tmp_path_factory.mktemp("flips")
    settings = load_settings(
        data=root / "state", log=f"sqlite:///{root / 'log.sqlite3'}", topic="flips", partitions=PARTITIONS
    )
    asyncio.run(_write(settings, root / "log.sqlite3", root))
    return root


def _say(source: Path, place: Path, flip: tuple[str, int] | None) -> Said:
    """What the verbs say of a copy of `source` with one bit flipped: (file, number of the bit)."""
    codes, content, errors = [], [], ""
    for verb in VERBS:
        copy = place / verb
        shutil.copytree(source, copy)
        if flip is not None:
            file, bit = flip
            data = bytearray((copy / file).read_bytes())
            data[bit // 8] ^= 1 << bit % 8
            (copy / file).write_bytes(data)
        log = ("--log", f"sqlite:///{copy / 'log.sqlite3'}", "--topic", "flips", "--partitions", PARTITIONS)
        options = (*log, "--data", place / "no-state")
        if verb == "replay":
            result = run("replay", "--to", place / "rebuilt", "--json", *options)
            content.append(json.loads(result.stdout)["digest"] if result.exit_code == 0 else "")
        elif verb == "check":
            result = run("check", "--log-itself", *options)
        else:
            result = run("deadletters", "list", "--json", *options)
            content.append(result.stdout if result.exit_code == 0 else "")
        assert result.exception is None or isinstance(result.exception, SystemExit), (flip, verb, result.exception)
        codes.append(result.exit_code)
        errors += "" if result.exit_code == 0 else result.stdout + result.stderr
    shutil.rmtree(place)
    return Said((codes[0], codes[1], codes[2]), (content[0], content[1]), errors)


@pytest.mark.timeout(60 + 10 * FLIPS)
@pytest.mark.parametrize("state", ["crashed", "closed"])
def test_flipped_bits(logs: Path, tmp_path: Path, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a flip each verb gives what it gave before, or one of them ends with an error that says what is damaged."""
    monkeypatch.setattr("slotlog.log.embedded.file.file.TRY_AGAIN_SECONDS", (0,))
    sound = _say(logs / state, tmp_path / "sound", None)
    assert (0, 0, 0) == sound.codes
    choose = random.Random(f"{SEED} {state}")
    outcomes: Counter[str] = Counter()
    silent = []
    for number in range(FLIPS // 2):
        flip = _somewhere(logs / state, choose)
        said = _say(logs / state, tmp_path / str(number), flip)
        verbs = [verb for verb, code in zip(VERBS, said.codes, strict=True) if code]
        outcomes[f"named by {', '.join(verbs)}" if verbs else "nothing to say"] += 1
        assert bool(verbs) == bool(said.errors.strip()), flip
        differs = said.content != sound.content if not verbs else said.content[0] != sound.content[0]
        if differs and "replay" not in verbs:
            silent.append(flip)
    logger.info("%s: %d flips, %s, in silence: %s", state, FLIPS // 2, dict(outcomes), silent)

    assert [] == silent


def _somewhere(directory: Path, choose: random.Random) -> tuple[str, int]:
    """A bit of the files there, each as likely as any other."""
    files = sorted(directory.iterdir())
    bit = choose.randrange(sum(file.stat().st_size for file in files) * 8)
    for file in files:
        bits = file.stat().st_size * 8
        if bit < bits:
            return file.name, bit
        bit -= bits
    raise AssertionError
