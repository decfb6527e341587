"""Workers learn from the logs who owns which partition, and warn of wrong ownership."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from ingest.applying.partitions import ownership
from ingest.applying.partitions.ownership import ALIVE_SECONDS, Ownership
from slotlog.log.embedded.claims import SUFFIX, EmbeddedClaims
from slotlog.log.embedded.embedded_log import EmbeddedLog
from slotlog.log.kafka.claims import KafkaClaims
from tests.slotlog.fixtures import MakeKafkaLog


class ToldLog:
    """As much of a log as an `Ownership` asks: what it is told, it tells."""

    partitions = 3

    def __init__(self) -> None:
        self.heard: Mapping[int, Sequence[str]] | None = {}

    async def claims(self, _owner: str, _partitions: Sequence[int]) -> Mapping[int, Sequence[str]] | None:
        """What the test says."""
        return self.heard


class Clock:
    """A monotonic clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """As `time.monotonic`."""
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of `ingest.applying.partitions.ownership`."""
    made = Clock()
    monkeypatch.setattr(ownership, "monotonic", made)
    return made


def watching(log: ToldLog, own: Collection[int] = (0,)) -> Ownership:
    """The first of three partitions is ours."""
    told: Any = log
    return Ownership(told, "me", own)


def in_group(log: ToldLog, own: Collection[int], members: set[str]) -> Ownership:
    """One whose group has these members; `own` and `members` may change."""
    made = watching(log, own)
    made.members = lambda: members
    return made


def named(said: Sequence[Mapping[str, Any]]) -> list[str]:
    """The events of log lines."""
    return [line["event"] for line in said]


async def test_a_second_owner_is_noticed(clock: Clock) -> None:
    """Another one that claims our partition is known, named in warnings and in the log, until it is silent."""
    log = ToldLog()
    mine = watching(log)
    with capture_logs() as said:
        log.heard = {0: ["me"]}
        await mine.look()
        alone = mine.owners(0), mine.warnings()
        log.heard = {0: ["other"]}
        await mine.look()
        twice = mine.owners(0), mine.warnings()
        log.heard = {0: ["me"]}
        clock.now += ALIVE_SECONDS + 1
        await mine.look()

    warning = "partition 0 has another owner too, other: reads may be old there and here"
    assert ((1, []), (2, [warning]), 1) == (alone, twice, mine.owners(0))
    assert ["owned_twice", "owned_once"] == [line["event"] for line in said]


async def test_an_owner_that_takes_over_is_no_second_one(clock: Clock) -> None:
    """A worker that is started again claims by another name: the one before counts no more, unless it speaks again."""
    log = ToldLog()
    mine = watching(log)
    log.heard = {1: ["before"]}
    await mine.look()
    log.heard = {1: ["after"]}
    await mine.look()
    taken = mine.others(1)
    log.heard = {1: ["before"]}
    await mine.look()

    assert (["after"], ["after", "before"]) == (taken, mine.others(1))


async def test_a_member_that_has_left_is_no_second_owner(clock: Clock) -> None:
    """What a member claimed before it left its group is no conflict, also where it is heard only afterwards.

    Neither for who has taken its partition, nor for a follower of it.
    """
    log, own, members = ToldLog(), {0}, {"me", "other", "third"}
    mine = in_group(log, own, members)
    with capture_logs() as said:
        log.heard = {1: ["other"], 2: ["other"]}
        await mine.look()
        members.remove("other")  # it has claimed once more
        own.add(1)
        at_once = mine.owners(1), mine.owners(2)
        clock.now += 2
        log.heard = {1: ["other"], 2: ["third"]}
        await mine.look()
        heard = mine.owners(1), mine.owners(2), mine.warnings()
        clock.now += 2
        log.heard = {}
        await mine.look()

    assert ((1, 1), (1, 1, []), (1, 1)) == (at_once, heard, (mine.owners(1), mine.owners(2)))
    assert [] == named(said)


async def test_who_left_while_the_log_did_not_tell(clock: Clock) -> None:
    """What is heard in the first answer after a while without any may be of a member that has left meanwhile."""
    log, members = ToldLog(), {"me", "other"}
    mine = in_group(log, {0}, members)
    await mine.look()
    members.remove("other")
    log.heard = None
    for _ in range(3):
        clock.now += ALIVE_SECONDS
        await mine.look()
    log.heard = {0: ["other"]}
    await mine.look()

    assert [] == mine.others(0)


async def test_a_member_since_the_log_was_asked(clock: Clock) -> None:
    """A worker that becomes a member and claims while the log is asked is no second owner, now or later."""
    members = {"me"}

    class SlowLog(ToldLog):
        async def claims(self, _owner: str, _partitions: Sequence[int]) -> Mapping[int, Sequence[str]] | None:
            members.add("new")
            return {0: ["new"]}

    mine = in_group(SlowLog(), {0}, members)
    with capture_logs() as said:
        await mine.look()
        clock.now += 2
        await mine.look()

    assert ([], []) == (named(said), mine.others(0))


@pytest.mark.parametrize("was_member", [True, False])
async def test_a_second_owner_beside_a_group(clock: Clock, was_member: bool) -> None:
    """Who goes on to claim a partition and is no member is told at its next claim, to who owns it and to others."""
    log, members = ToldLog(), {"me", "other", *(["late"] if was_member else [])}
    mine = in_group(log, {0}, members)
    with capture_logs() as said:
        await mine.look()
        members.discard("late")
        for heard in ({1: ["other"]}, {0: ["late"], 1: ["late"]}, {1: ["other"]}):
            clock.now += 2
            log.heard = heard
            await mine.look()

    assert (["late"], 2, 2) == (mine.others(0), mine.owners(0), mine.owners(1))
    (line,) = said
    assert ("owned_twice", ["late"], "stop the others: they are no members of this worker's group") == (
        line["event"],
        line["others"],
        line["hint"],
    )


async def test_members_that_pass_a_partition_on_are_one_owner(clock: Clock) -> None:
    """A partition that moves between members, and back, has one owner for who follows it."""
    log = ToldLog()
    mine = in_group(log, {0}, {"me", "other", "third"})
    for owner in ("other", "third", "other"):
        clock.now += 2
        log.heard = {1: [owner]}
        await mine.look()

    assert (["other"], 1) == (mine.others(1), mine.owners(1))


async def test_a_partition_that_was_given_up_has_time_to_be_claimed(clock: Clock) -> None:
    """What this worker has given up is nobody's only when nobody has claimed it for as long as that takes elsewhere."""
    log, own = ToldLog(), {0, 1, 2}
    mine = in_group(log, own, {"me", "other"})
    with capture_logs() as said:
        for _ in range(3):
            clock.now += ALIVE_SECONDS - 1
            await mine.look()
        own -= {1, 2}
        at_once = mine.unowned()
        clock.now += 2
        await mine.look()
        log.heard = {1: ["other"]}
        clock.now += ALIVE_SECONDS - 1
        await mine.look()
        early = mine.unowned(), named(said)
        clock.now += 1
        await mine.look()

    assert ([], ([], []), [2]) == (at_once, early, mine.unowned())
    assert [[2]] == [line["partitions"] for line in said]


async def test_partitions_without_an_owner_are_known(clock: Clock) -> None:
    """Partitions that nobody claims are known as such once there was time enough to hear of an owner."""
    log = ToldLog()
    mine = watching(log)
    log.heard = {1: ["other"]}
    with capture_logs() as said:
        await mine.look()
        early = mine.unowned()
        clock.now += ALIVE_SECONDS
        await mine.look()
        late = mine.unowned()
        log.heard = {}
        for _ in range(2):
            clock.now += ALIVE_SECONDS - 1
            await mine.look()
        later = mine.unowned()

    assert (None, [2], [1, 2]) == (early, late, later)
    assert [[2], [1, 2]] == [line["partitions"] for line in said if line["event"] == "owned_by_nobody"]
    assert ["nobody owns the partitions [1, 2]: nothing is applied there"] == mine.warnings()


async def test_what_cannot_be_told_is_not_known(clock: Clock) -> None:
    """While the log does not tell, nobody is said to be without an owner; what it tells then needs its time again."""
    log = ToldLog()
    mine = watching(log)
    await mine.look()
    clock.now += ALIVE_SECONDS
    await mine.look()
    known = mine.unowned()
    log.heard = None
    clock.now += ALIVE_SECONDS + 1
    await mine.look()
    away = mine.unowned()
    log.heard = {}
    await mine.look()

    assert ([1, 2], None, None) == (known, away, mine.unowned())


def test_claims_beside_a_file(tmp_path: Path) -> None:
    """Workers on one file know of each other at once, until one of them lets go."""
    first, second = EmbeddedClaims(tmp_path / "log"), EmbeddedClaims(tmp_path / "log")
    early = first.claim("one", [0, 1])
    late = second.claim("two", [1, 2])
    both = first.claim("one", [0, 1])
    second.close()
    alone = first.claim("one", [0, 1])
    first.close()

    assert ({}, {0: ["one"], 1: ["one"]}, {1: ["two"], 2: ["two"]}, {}) == (early, late, both, alone)
    assert [] == list((tmp_path / f"log{SUFFIX}").iterdir())


def test_a_dead_workers_claim_goes(tmp_path: Path) -> None:
    """A file that nobody has locked is of a worker that was killed: it is no claim, and is removed."""
    folder = tmp_path / f"log{SUFFIX}"
    folder.mkdir()
    (folder / "dead.json").write_text('{"owner": "dead", "partitions": [0]}')
    mine = EmbeddedClaims(tmp_path / "log")
    found = mine.claim("me", [0])
    names = [path.name for path in folder.iterdir()]
    mine.close()

    assert ({}, False) == (found, "dead.json" in names)


def test_a_claim_that_was_removed_is_made_again(tmp_path: Path) -> None:
    """Somebody has cleaned up beside the log: the next look has the claim there again."""
    first, second = EmbeddedClaims(tmp_path / "log"), EmbeddedClaims(tmp_path / "log")
    first.claim("one", [0])
    for path in (tmp_path / f"log{SUFFIX}").iterdir():
        path.unlink()
    first.claim("one", [0])
    found = second.claim("two", [0])
    first.close()
    second.close()

    assert {0: ["one"]} == found


async def test_a_log_that_cannot_carry_claims_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Where the folder cannot be made the claims are unknown, and a line in the log has the reason."""
    log = EmbeddedLog(tmp_path / "log", topic="t", partitions=1)
    await log.start()
    (tmp_path / f"log{SUFFIX}").write_text("a file")
    with caplog.at_level(logging.WARNING):
        told = await log.claims("me", [0])
    await log.close()

    assert (None, ["claims_failed"]) == (told, [record.getMessage().split()[0] for record in caplog.records])


def test_old_claims_are_not_heard() -> None:
    """Of what is committed only what has changed since the last look counts, and what no worker wrote never."""
    claims = KafkaClaims()
    rounds = [{0: "dead 7", 1: "b 1", 2: ""}, {0: "dead 7", 1: "b 2", 2: "tool"}, {0: "new 1", 1: "b 2", 2: "c d 1"}]

    assert [{}, {1: ["b"]}, {0: ["new"], 2: ["c d"]}] == [claims.heard(found) for found in rounds]


def test_claims_are_numbered() -> None:
    """Each commit has a claim of its own; none while nobody has said who owns."""
    claims = KafkaClaims()
    before = claims.next_text()
    claims.own("me here")

    assert ["", "me here 1", "me here 2"] == [before, claims.next_text(), claims.next_text()]


async def test_claims_in_a_group(make_log: MakeKafkaLog, topic: str) -> None:
    """Two workers that commit positions of one partition hear of each other; one that is gone is not heard again."""
    first, second = make_log(group=f"owners-{topic}"), make_log(group=f"owners-{topic}")
    for log, owner in ((first, "one"), (second, "two")):
        await log.start()
        assert await log.claims(owner, [0]) is None
    for log, owner in itertools.islice(itertools.cycle([(first, "one"), (second, "two")]), 4):
        await log.commit({0: 0})
        await log.claims(owner, [0])
    found = await first.claims("one", [0])
    again = await first.claims("one", [0])

    assert ({0: ["two"]}, {}) == (found, again)
