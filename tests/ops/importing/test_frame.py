"""All imports: each key is appended once and in order, and a run that ended early is continued."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer

from ops.config import ConfigError, Settings, load_settings
from ops.importing.batches import batches
from ops.importing.progress_file import ProgressFile
from ops.importing.report import Imported
from ops.importing.run import dry_run, run
from ops.importing.source import Command, ImportKey, LeftOut, SourceError
from slotlog.errors import AppendUncertainError, LogUnavailableError
from slotlog.events import decode
from slotlog.log import Entry, RecordPosition, open_log
from slotlog.log.embedded.embedded_log import EmbeddedLog
from slotlog.shared.limits import RECORD_BYTES_MAX
from tests.faults.workers import new_topic


class Numbers:
    """A source of the keys `0` … `count - 1`, each of `events` events; `at` raises where one stands in for a key."""

    identity = label = "numbers"
    unit = "keys"

    def __init__(self, count: int, *, fails_at: int = -1, size: int = 1, events: int = 1) -> None:
        self.total = count
        self.done = 0
        self.told = self.announced = 0
        self.given: list[int] = []
        self._fails_at = fails_at
        self._value = b"v" * size
        self._events = events

    def keys(self, mark: str | None) -> Iterator[ImportKey | LeftOut]:
        """Those behind `mark`."""
        for number in range(int(mark or -1) + 1, self.total):
            if number == self._fails_at:
                raise SourceError("the source is away")
            self.given.append(number)
            name = b"%d" % number
            yield ImportKey(0, name, "string", self._commands(name), str(number))
            self.done = number + 1

    def _commands(self, name: bytes) -> Iterator[Command]:
        yield b"SET", [name, self._value]
        for _ in range(1, self._events):
            yield b"APPEND", [name, self._value]

    def appending(self) -> None:
        """Noted."""
        self.announced = len(self.given)

    def appended(self, keys: int) -> None:
        """Counted."""
        self.told += keys

    def notes(self) -> list[str]:
        """One."""
        return ["a note"]

    def close(self) -> None:
        """Nothing to let go of."""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Those of an embedded log that is not there yet."""
    return load_settings(data=tmp_path / "data")


def one_run(settings: Settings, source: Any, listing: Callable[[LeftOut], None] | None = None) -> Imported:
    """A run of an import, whatever it comes to."""
    imported = Imported(listing=listing)
    with ProgressFile(settings.data / "imports" / "one", source.identity, settings.log_url, settings.topic) as progress:
        try:
            asyncio.run(run(settings, source, progress, lambda _: None, imported))
        except SourceError as error:
            imported.failure = str(error)
    return imported


def names(settings: Settings) -> list[bytes]:
    """The first argument of each record of the log."""

    async def read() -> list[bytes]:
        log = open_log(settings.log_url, topic=settings.topic, partitions=settings.partitions, create=False)
        await log.start()
        reader = log.reader({0: 0})
        found: list[bytes] = []
        while len(found) < await log.end_offset(0):
            found += [decode(*record[:2], record[3])[3][0] for record in (await reader.fetch(200, 10_000))[0]]
        await reader.close()
        await log.close()
        return found

    return asyncio.run(read())


def test_every_key_is_appended_once_in_order(settings: Settings) -> None:
    """What the source gives is in the log in its order, and the source hears of each key that is."""
    source = Numbers(2500)
    imported = one_run(settings, source)

    assert [b"%d" % number for number in range(2500)] == names(settings)
    assert ({"string": 2500}, 2500, 2500, ["a note"]) == (
        imported.types,
        imported.events,
        source.told,
        imported.notes,
    )


def test_the_source_hears_of_keys_before_they_are_appended(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that it can note what may be in the log from then on."""
    source = Numbers(2500)
    ahead: list[bool] = []
    append = EmbeddedLog.append

    async def watched(log: EmbeddedLog, entries: Sequence[Entry]) -> list[RecordPosition]:
        ahead.append(source.announced > int(decode(0, 0, entries[-1].value)[3][0]))
        return await append(log, entries)

    monkeypatch.setattr(EmbeddedLog, "append", watched)
    one_run(settings, source)

    assert {True} == {*ahead}


def test_second_run_goes_on_behind_the_first(settings: Settings) -> None:
    """After an error of the source, what came before is in the log, and a second run asks for the rest alone."""
    first = one_run(settings, Numbers(2500, fails_at=1700))
    source = Numbers(2500)
    second = one_run(settings, source)

    assert ("the source is away", 1700, []) == (first.failure, first.events, first.notes)
    assert list(range(1700, 2500)) == source.given
    assert ("", 800, 1700) == (second.failure, second.events, second.earlier_keys)
    assert [b"%d" % number for number in range(2500)] == names(settings)
    assert 0 == one_run(settings, Numbers(2500)).events


class Holed(Numbers):
    """Every third key is left out."""

    def keys(self, mark: str | None) -> Iterator[ImportKey | LeftOut]:
        """Those behind `mark`."""
        for each in super().keys(mark):
            is_hole = isinstance(each, ImportKey) and int(each.name) % 3 == 2
            yield LeftOut(0, each.name, "stream", "slotlog has no streams") if is_hole else each


def test_second_run_tells_what_the_first_left_out(settings: Settings) -> None:
    """Each thing that was left out is told once, by however many runs: also what came behind the last key."""
    listed: list[LeftOut] = []
    one_run(settings, Holed(2500, fails_at=1700))  # 1697 is left out; 1698 and 1699 are the last keys
    one_run(settings, Holed(2500, fails_at=2400))  # 2399 is left out behind the last key, and met again
    third = one_run(settings, Holed(2500), listed.append)
    fourth = one_run(settings, Holed(2500))

    assert [b"%d" % number for number in range(2, 2500, 3)] == [each.name for each in listed]
    assert {"stream": 833} == third.left_out == fourth.left_out
    assert [b"%d" % number for number in range(2, 60, 3)] == [each.name for each in fourth.first_left_out]


def test_left_out_file_that_is_damaged_is_said(settings: Settings) -> None:
    """What nobody can read is no list of what was left out."""
    one_run(settings, Holed(10))
    (file,) = settings.data.glob("imports/*/left-out.jsonl")
    file.write_bytes(b"x" * file.stat().st_size)

    with pytest.raises(ConfigError, match=r"left-out.jsonl is not what an import writes: remove"):
        one_run(settings, Holed(10))


def failing(at: int, error: Exception, *, appends: bool) -> Callable[..., Any]:
    """`EmbeddedLog.append`, failing at the n-th call, with or without having appended."""
    real = EmbeddedLog.append
    calls = iter(range(1, 1000))

    async def append(log: EmbeddedLog, entries: list[Entry]) -> list[RecordPosition]:
        if next(calls) != at:
            return await real(log, entries)
        if appends:
            await real(log, entries)
        raise error

    return append


@pytest.mark.parametrize("appends", [False, True])
def test_failing_log_ends_a_run_and_loses_nothing(
    appends: bool, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When an append fails, whether or not its records are in the log, a second run brings them and all behind them."""
    error = AppendUncertainError("gone") if appends else LogUnavailableError("away")
    with monkeypatch.context() as patch:
        patch.setattr(EmbeddedLog, "append", failing(2, error, appends=appends))
        source = Numbers(2500)
        first = one_run(settings, source)
    second = one_run(settings, Numbers(2500))
    assert (f"the log takes no more: {error}", 1000, 1000) == (first.failure, first.events, source.told)
    assert (1500, 1000) == (second.events, second.earlier_keys)
    twice = range(1000, 2000) if appends else range(0)
    assert sorted([*range(2500), *twice]) == sorted(map(int, names(settings)))


def test_key_of_several_appends_is_marked_when_it_is_whole(settings: Settings) -> None:
    """A key whose events fill more than one append counts, and is gone on behind, once its last event is in the log."""
    source = Numbers(3, size=3 * 1024 * 1024, events=3)
    made = list(batches(source.keys(None), 1))

    assert [[], [], ["string"]] * 3 == [batch.types for batch in made]
    assert [None, None, "0", None, None, "1", None, None, "2"] == [batch.mark for batch in made]


def test_key_that_no_event_holds_is_left_out(settings: Settings) -> None:
    """A key with an event beyond the bounds is left out and named; no part of it stays, and the rest comes over."""

    class OneTooLarge(Numbers):
        def _commands(self, name: bytes) -> Iterator[Command]:
            yield b"SET", [name, b"v"]
            if name == b"1":
                yield b"APPEND", [name, b"v" * RECORD_BYTES_MAX]

    imported = one_run(settings, OneTooLarge(3))

    assert [b"0", b"1", b"1", b"2"] == names(settings)
    assert ({"string": 2}, {"string": 1}) == (imported.types, imported.left_out)
    assert "more than 8388608 bytes" in imported.first_left_out[0].reason


def test_dry_run_makes_no_log(settings: Settings) -> None:
    """A dry run goes through the whole source, and nothing is there after it."""
    source, imported = Numbers(2500), Imported()
    asyncio.run(dry_run(settings, source, lambda _: None, imported))

    assert ({"string": 2500}, 0) == (imported.types, imported.events)
    assert not settings.data.exists()


def test_another_log_is_refused(settings: Settings) -> None:
    """Where the log was made anew, going on would leave out what an earlier run had appended: it is refused."""
    one_run(settings, Numbers(10))
    for file in settings.data.glob("log.sqlite3*"):
        file.unlink()

    with pytest.raises(ConfigError, match=r"came to offset 9 of partition 0, and the log .* ends before"):
        one_run(settings, Numbers(10))


async def test_a_log_with_an_open_transaction_is_no_other_one(kafka_bootstrap: str, tmp_path: Path) -> None:
    """What an earlier run appended behind another producer's records is there, even while it cannot be read."""
    topic = new_topic()
    settings = load_settings(data=tmp_path / "data", log=f"kafka://{kafka_bootstrap}", topic=topic)
    await asyncio.to_thread(one_run, settings, Numbers(1))
    async with AIOKafkaProducer(bootstrap_servers=kafka_bootstrap, transactional_id=topic) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"", partition=0)
        runs = [await asyncio.to_thread(one_run, settings, Numbers(count)) for count in (2, 3)]
        await producer.abort_transaction()

    assert [("", 1), ("", 1)] == [(each.failure, each.events) for each in runs]


def test_progress_of_another_import_is_refused(tmp_path: Path) -> None:
    """A directory of another source, one that another import uses, and a damaged one are errors that say what to do."""
    with ProgressFile(tmp_path, "one", "log", "topic") as progress:
        progress.note([RecordPosition(0, 5, 0)], 6)
        progress.note_left_out([], "mark", 0)
        with pytest.raises(ConfigError, match="another import uses"):
            ProgressFile(tmp_path, "one", "log", "topic")
    with ProgressFile(tmp_path, "one", "log", "topic") as again:
        assert ("mark", 6) == (again.mark, again.keys)
    with pytest.raises(ConfigError, match="is of an import of one into topic at log: name another directory"):
        ProgressFile(tmp_path, "two", "log", "topic")
    (tmp_path / "progress.json").write_text(json.dumps([1]))
    with pytest.raises(ConfigError, match="is not what an import writes: remove"):
        ProgressFile(tmp_path, "one", "log", "topic")
