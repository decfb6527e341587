"""A worker that takes a partition which others have owned: nothing of theirs is said again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from ingest.applying.batches.worker import Worker
from ingest.applying.consumer import Consumer
from ingest.dead_letters.embedded_store import EmbeddedDeadLetters
from ingest.membership import Member, Plan, Role
from ops.config import load_settings
from ops.serving.group.lags import GroupLags
from ops.serving.group.roles import GroupRoles
from slotlog.errors import LogUnavailableError
from slotlog.log import Entry
from slotlog.log.embedded.embedded_log import EmbeddedLog
from tests.ingest.applying.test_consumer import FAMILIES, Recorder, Store, entry, key_of, until
from tests.layouts import home_of

_BROKEN = Entry(0, None, b"broken")
_PLAN = Plan({"me": Member("me")}, {0: "me"}, {}, {}, {})


class _Worker:
    """The roles of a worker of one partition, in a group that answers when it is let.

    Attributes:
        roles, worker, letters: what is tested, and the dead letters that were sent.
        asked: how often the group was asked how far owners were.
        answers: what it says; nothing until then. None: it cannot be asked.
        commits: what was committed for lag tools.
    """

    def __init__(self, directory: Path) -> None:
        self.log = EmbeddedLog(directory / "log.sqlite3", topic="topic", partitions=2)
        self.letters = EmbeddedDeadLetters(self.log)
        store = Store(FAMILIES)
        self.worker = Worker(home_of("topic", 0, 2), self.log, lambda _: store, self.letters, Recorder())
        self.consumer = Consumer(self.log, {0: self.worker}, Recorder(), role=Role.NONE, commit_seconds=0.0)
        self.answers: asyncio.Queue[int | None] = asyncio.Queue()
        self.asked = 0
        self.commits: list[Mapping[int, int]] = []
        self.is_current = True
        settings = load_settings(data=directory)
        restorer = cast("Any", SimpleNamespace(restore_if_missing=self._restore))
        self.roles = GroupRoles(settings, "me", self.consumer, None, restorer, GroupLags(self.consumer, lambda _: 0))

    async def _restore(self, _partition: int) -> None:
        """There is none."""

    def join_anew(self) -> None:
        """As a member of a group."""

    async def said_to(self, _partition: int) -> int:
        """As a member of a group."""
        self.asked += 1
        offset = await self.answers.get()
        if offset is None:
            raise LogUnavailableError("nobody answers")
        return offset

    async def append(self, *entries: Entry) -> None:
        """Append events."""
        await self.log.append(entries)

    async def applied(self, offset: int) -> set[int]:
        """Wait until it has applied everything before `offset`; the dead letters that were sent until then."""
        await until(lambda: self.worker.is_open and self.worker.machine.next_offset == offset, "it has applied")
        return await self.letters.offsets(0)


@pytest.fixture
async def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[_Worker]:
    """A worker that has just become a member; others have had its partition, and one a dead letter at offset 1."""
    mine = _Worker(tmp_path)
    await mine.log.start()
    await mine.letters.start()

    async def commit(positions: Mapping[int, int]) -> None:
        mine.commits.append(positions)

    monkeypatch.setattr(mine.log, "commit", commit)
    await mine.append(entry(0, "INCR", key_of(0)), _BROKEN, entry(0, "INCR", key_of(0)))
    await mine.consumer.open()
    stop = asyncio.Event()
    tasks = [asyncio.create_task(mine.consumer.run(stop)), asyncio.create_task(mine.roles.run(cast("Any", mine)))]
    mine.roles.renewed(monotonic() + 3600)
    mine.roles.planned(_PLAN)
    yield mine
    tasks[1].cancel()
    stop.set()
    with suppress(asyncio.CancelledError):
        await asyncio.gather(*tasks)
    mine.consumer.close()
    await mine.letters.close()
    await mine.log.close()


async def test_an_owner_repeats_no_dead_letter_of_one_before(mine: _Worker) -> None:
    """It owns nothing before the group has said how far others were; what it commits is no less."""
    await until(lambda: mine.asked == 1, "the group is asked")
    while_asked = mine.consumer.every[0].role
    mine.answers.put_nowait(5)
    silent = await mine.applied(3)
    await mine.consumer._watch.commit()
    early = mine.commits[-1], mine.roles.positions()
    await mine.append(_BROKEN, entry(0, "INCR", key_of(0)), _BROKEN)
    letters = await mine.applied(6)

    assert (Role.NONE, set(), ({0: 5}, {0: 5})) == (while_asked, silent, early)
    assert ({5}, {0: 6}) == (letters, mine.roles.positions())


async def test_a_group_that_does_not_say_is_not_waited_for(mine: _Worker) -> None:
    """The partition is served, and a line says that dead letters may be there twice."""
    with capture_logs() as lines:
        mine.answers.put_nowait(None)
        letters = await mine.applied(3)

    said = [(line["partition"], line["error"]) for line in lines if line["event"] == "owner_offset_unknown"]
    assert ({1}, [(0, "nobody answers")]) == (letters, said)


async def test_who_was_no_member_for_a_moment_asks_again(mine: _Worker) -> None:
    """Also if its roles were not looked at meanwhile: a process may have stood still, and be a member again at once."""
    mine.answers.put_nowait(2)
    await mine.applied(3)
    assert mine.consumer.every[0].speaks
    mine.roles.renewed(0.0)  # Kafka has given it up
    mine.roles.renewed(monotonic() + 3600)
    at_once = mine.consumer.every[0].speaks, mine.roles.positions()
    await mine.append(_BROKEN)
    await until(lambda: mine.asked == 2, "the group is asked again")
    while_asked = mine.consumer.every[0].role
    mine.answers.put_nowait(4)
    silent = await mine.applied(4)
    await mine.append(_BROKEN)
    letters = await mine.applied(5)

    assert ((False, {}), Role.FOLLOWER, set(), {4}) == (at_once, while_asked, silent, letters)
    assert mine.consumer.every[0].speaks
