"""The embedded log's files taken away or put in another's place while they are open."""

# ruff: noqa: ASYNC240 - files of a test are small, and nothing else runs in its loop

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from slotlog.errors import LogMismatchError, Mismatch
from slotlog.log import Entry
from slotlog.log.embedded.embedded_log import EmbeddedLog
from tests.slotlog.log.reading import append, read_values

APPENDER = """
import asyncio, sys
from pathlib import Path
from slotlog.log import Entry
from slotlog.log.embedded.embedded_log import EmbeddedLog

async def main(path):
    log = EmbeddedLog(Path(path), topic="t", partitions=2)
    await log.start()
    for word in sys.stdin:
        try:
            at_once = log.append_at_once([Entry(0, b"", word.encode())])
            print((at_once or await log.append([Entry(0, b"", word.encode())]))[0].offset, flush=True)
        except Exception as error:
            print(error, flush=True)

asyncio.run(main(sys.argv[1]))
"""


def wal_of(path: Path) -> Path:
    """The file beside the log that holds what is committed and not in the log yet."""
    return path.with_name(f"{path.name}-wal")


@pytest.mark.parametrize("exchanged", [False, True])
async def test_wal_taken_away(local_log: EmbeddedLog, local_path: Path, exchanged: bool) -> None:
    """Without its `-wal` the log takes no append, in the loop or by its thread, and its check says so."""
    await append(local_log, b"a")
    local_log.append_at_once([Entry(0, b"", b"b")])
    fingerprint = local_log.fingerprint(0, (1, 1, b"", b"b"))
    wal_of(local_path).unlink()
    if exchanged:
        wal_of(local_path).write_bytes(b"")
    said = "-wal was deleted or exchanged while it was open"

    with pytest.raises(LogMismatchError, match=said) as raised:
        local_log.append_at_once([Entry(0, b"", b"c")])
    assert raised.value.kind is Mismatch.RECREATED
    with pytest.raises(LogMismatchError, match=said):
        await append(local_log, b"c")
    with pytest.raises(LogMismatchError, match=said):
        await local_log.check(0, 2, fingerprint)


def test_nothing_is_lost_with_the_wal(local_path: Path) -> None:
    """A process whose `-wal` is removed acknowledges nothing more, and kill -9 takes nothing that it acknowledged."""
    command = [sys.executable, "-c", APPENDER, str(local_path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[5]
    ) as appender:
        assert appender.stdin is not None
        assert appender.stdout is not None
        answers = []
        for number in range(20):
            if number == 10:
                wal_of(local_path).unlink()
            print(number, file=appender.stdin, flush=True)
            answers.append(appender.stdout.readline())
        appender.send_signal(signal.SIGKILL)

    assert [f"{number}\n" for number in range(10)] == answers[:10]
    assert [True] * 10 == ["was deleted or exchanged while it was open" in answer for answer in answers[10:]]
    wal_of(local_path).unlink(missing_ok=True)  # whoever opened the log meanwhile may have made one

    async def values() -> list[bytes | None]:
        log = EmbeddedLog(local_path, topic="t", partitions=2, create=False)
        await log.start()
        try:
            return await read_values(log, 10)
        finally:
            await log.close()

    assert [b"%d\n" % number for number in range(10)] == asyncio.run(values())


def test_tables_need_no_wal(local_path: Path) -> None:
    """A log that was just made and killed is one without its `-wal`: its tables are in the file."""
    command = [sys.executable, "-c", APPENDER, str(local_path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[5]
    ) as appender:
        assert appender.stdin is not None
        assert appender.stdout is not None
        print("a", file=appender.stdin, flush=True)
        appender.stdout.readline()
        appender.send_signal(signal.SIGKILL)
    wal_of(local_path).unlink()

    async def end_offset() -> int:
        log = EmbeddedLog(local_path, topic="t", partitions=2, create=False)
        await log.start()
        try:
            return await log.end_offset(0)
        finally:
            await log.close()

    assert 0 == asyncio.run(end_offset())


@pytest.mark.parametrize("again", [True, False])
async def test_log_replaced_under_an_open_reader(local_log: EmbeddedLog, local_path: Path, again: bool) -> None:
    """A reader gives no record of a log that was put in the place of the one that it has open."""
    await append(local_log, *[b"%d" % n for n in range(5)])
    await local_log.close()
    log = EmbeddedLog(local_path, topic="t", partitions=2)
    await log.start()
    reader = log.reader({0: 5})
    if again:  # it has looked before, and waits for what comes
        assert {} == await reader.fetch(0, 10)
    local_path.unlink()
    wal_of(local_path).with_name(f"{local_path.name}-head").unlink()
    other = EmbeddedLog(local_path, topic="t", partitions=2)
    await other.start()
    await append(other, *[b"other %d" % n for n in range(10)])

    with pytest.raises(LogMismatchError):
        await reader.fetch(0, 10)
    assert 5 == reader.position(0)
    await other.close()
    await log.close()


async def test_log_overwritten_under_an_open_reader(local_log: EmbeddedLog, local_path: Path, tmp_path: Path) -> None:
    """Nor of one that was copied over it."""
    await append(local_log, *[b"%d" % n for n in range(5)])
    await local_log.close()
    other = EmbeddedLog(tmp_path / "other", topic="t", partitions=2)
    await other.start()
    await append(other, *[b"other %d" % n for n in range(10)])
    await other.close()
    log = EmbeddedLog(local_path, topic="t", partitions=2)
    await log.start()
    reader = log.reader({0: 5})
    with local_path.open("r+b") as file:
        file.write((tmp_path / "other").read_bytes())

    with pytest.raises(LogMismatchError, match="is another log than the one that the state was built from"):
        await reader.fetch(0, 10)
    await log.close()


async def test_a_replaced_log_is_no_damaged_one(local_log: EmbeddedLog, local_path: Path) -> None:
    """What a reader finds in the old file, by the places that the new file's `-shm` names, is not told as damage."""
    await append(local_log, *[b"%d" % n for n in range(5)])
    await local_log.close()
    log = EmbeddedLog(local_path, topic="t", partitions=2)
    await log.start()
    reader = log.reader({0: 0})
    with local_path.open("r+b") as old:
        local_path.unlink()
        wal_of(local_path).with_name(f"{local_path.name}-head").unlink()
        old.seek(4096)
        old.write(bytes(os.fstat(old.fileno()).st_size - 4096))
        old.flush()
        other = EmbeddedLog(local_path, topic="t", partitions=2)
        await other.start()
        await append(other, b"other")
        with pytest.raises(LogMismatchError, match="was deleted or exchanged while it was open"):
            await reader.fetch(0, 10)
    await other.close()
    await log.close()


async def test_a_log_that_is_being_made_is_waited_for(local_log: EmbeddedLog, local_path: Path) -> None:
    """A check that meets an empty file in the log's place asks again: it is another log in a moment, and says so."""
    await append(local_log, b"a")
    fingerprint = local_log.fingerprint(0, (0, 1, b"", b"a"))
    local_path.unlink()
    wal_of(local_path).with_name(f"{local_path.name}-head").unlink(missing_ok=True)
    local_path.touch()
    checking = asyncio.create_task(local_log.check(0, 1, fingerprint))
    await asyncio.sleep(0)
    other = EmbeddedLog(local_path, topic="t", partitions=2)
    await other.start()

    with pytest.raises(LogMismatchError, match="is another log than the one that the state was built from"):
        await checking
    await other.close()
