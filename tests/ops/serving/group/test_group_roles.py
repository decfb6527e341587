"""A worker that takes a partition which others have owned: nothing of theirs is said again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
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
from ops.serving.group.membership import Membership
from ops.serving.group.role_changes import RoleChanges
from ops.serving.group.roles import GroupRoles
from slotlog.errors import LogUnavailableError
from slotlog.log import Entry
from slotlog.log.embedded.embedded_log import EmbeddedLog
from tests.ingest.applying.test_consumer import FAMILIES, Recorder, Store, entry, key_of, until
from tests.layouts import home_of
from tests.resp.harness import Live
from tests.resp.workers import connected, workers

_BROKEN = Entry(0, None, b"broken")
_SESSION_SECONDS = 0.5
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
    mine.roles.membership.renewed(monotonic() + 3600)
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
    mine.roles.membership.renewed(0.0)  # Kafka has given it up
    mine.roles.membership.renewed(monotonic() + 3600)
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


class _Taking:
    """A worker that is to own the partition of another one, and waits until that has let go of it.

    Args:
        lives: the two.
        directory: of a log that nothing is applied of.
    """

    def __init__(self, lives: Sequence[Live], directory: Path) -> None:
        self.former = lives[1].server
        self.members = {"me": Member("me"), "former": Member("former", resp=f"127.0.0.1:{self.former.port}")}
        log = EmbeddedLog(directory / "nothing.sqlite3", topic="topic", partitions=2)
        settings = cast("Any", SimpleNamespace(group=SimpleNamespace(session_seconds=_SESSION_SECONDS)))
        consumer = Consumer(log, {}, Recorder())
        lags = GroupLags(consumer, lambda _: 0)
        server = lives[0].server
        self.membership = Membership("me", server)
        changes = RoleChanges(settings, self.membership, consumer, server, cast("Any", None), lags)
        self.plan("me")
        self.waiting = asyncio.create_task(changes._former_has_let_go(1))

    def plan(self, owner: str) -> None:
        """What the group says."""
        self.membership.planned(Plan(self.members, {1: owner}, {}, {}, {1: "former"}))


async def test_a_former_owner_that_answers_is_waited_for(tmp_path: Path) -> None:
    """However long it takes to let go: it may acknowledge until then, and what it does would be missing here."""
    async with connected(tmp_path, 2, node_timeout_seconds=_SESSION_SECONDS) as lives:
        taking = _Taking(lives, tmp_path)
        await asyncio.sleep(4 * _SESSION_SECONDS)
        waited = not taking.waiting.done()
        pipeline = taking.former.pipelines.pop(1)
        await until(taking.waiting.done, "it has let go")
        taking.former.pipelines[1] = pipeline

        assert waited


async def test_a_former_owner_that_is_silent_or_owns_again_is_not_waited_for(tmp_path: Path) -> None:
    """One that says nothing for the time of the group cannot be a member any more; one that owns again waits for us."""
    async with workers(tmp_path, 2, node_timeout_seconds=_SESSION_SECONDS) as made:
        lives = [await made.start(number) for number in range(2)]
        await until(lambda: all(link.is_up for link in lives[0].server.bus.links.values()), "they talk")
        owns_again = _Taking(lives, tmp_path)
        owns_again.plan("former")
        await until(owns_again.waiting.done, "it is not waited for")
        silent = _Taking(lives, tmp_path)
        await made.stop(1)
        await until(silent.waiting.done, "it is not waited for")
