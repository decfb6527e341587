"""The index of sorted sets in a real Redis server, which is filled, stopped, emptied and shared by mistake."""

from __future__ import annotations

import math
from collections import Counter
from contextlib import closing
from hashlib import md5
from pathlib import Path
from random import Random

import pytest
from pydantic import SecretStr

from engine.apply.machine import Machine
from engine.errors import IndexUnavailableError, StateMismatchError
from engine.layouts.index import IndexChanges
from engine.proof.digest import digest
from engine.values.encoding import pack_score
from ops.config import ConfigError, Settings
from ops.state.opening.directories import home_of, reading, store_opener
from ops.state.opening.indexed_state import IndexedState, StateStore
from ops.state.opening.redis_index import RedisIndex
from ops.state.repair.check_state import check_partition
from tests.engine.harness import FINGERPRINT, apply, event, send
from tests.layouts.held_index import HeldIndex
from tests.real.oracle import Oracle

LONG = "m" * 40
LINES = ["ZADD board 1.5 ann 2 bob", f"ZADD board inf {LONG} -0.1 cy", "ZADD gone 1 a", "DEL gone", "ZREM board bob"]


@pytest.fixture
def settings(index_server: Oracle, tmp_path: Path) -> Settings:
    """Of a state whose index is there."""
    return Settings(data=tmp_path / "data", layout="camellia-v1", index=SecretStr(f"unix://{index_server.path}"))


def open_machine(settings: Settings) -> tuple[Machine, StateStore]:
    """The machine of the state, and its store."""
    store = store_opener(settings, settings.data)(0)
    return Machine(store, home_of(settings, 0)), store


def opened_anew(settings: Settings) -> tuple[Machine, StateStore]:
    """The machine of a state with `LINES`, and its store: no score is in memory."""
    machine, store = open_machine(settings)
    send(machine, *LINES)
    store.close()
    return open_machine(settings)


def changes_of(items: dict[bytes, dict[bytes, bytes | None]], *dropped: bytes) -> IndexChanges:
    """A batch."""
    changes = IndexChanges()
    changes.items, changes.dropped = items, dict.fromkeys(dropped)
    return changes


def violations(settings: Settings) -> list[str]:
    """What `slotlog check` says."""
    found: list[str] = []
    check_partition(settings, 0, lambda violation: found.append(str(violation)))
    return found


def test_it_is_as_one_in_memory(index_server: Oracle) -> None:
    """Random batches, any scores and items, many of one score: what is found is the same, in the same order."""
    random, held = Random(1), HeldIndex()
    scores = [pack_score(score) for score in (-math.inf, -1e300, -0.1, 0.0, 5e-324, 0.1, 1 / 3, 2**53 + 2.0, math.inf)]
    names = [b"c#", b"c#\xff\0", b"c#" + bytes(9)]
    items = [b"\0", b"\1" + bytes(16), *(b"\0%d" % number for number in range(3000))]
    with closing(RedisIndex(f"unix://{index_server.path}", "topic", 0, "owner")) as index:
        assert index.number() is None
        for number in range(1, 25):
            picked = random.sample(items, random.choice([1, 20, 2500]))
            score = random.choice([None, *scores])
            batch = {name: {item: random.choice([score, score, *scores]) for item in picked} for name in names[1:]}
            changes = changes_of(batch, *names[: random.choice([0, 0, 2])])
            index.apply(number, changes)
            held.apply(number, changes)
        assert 24 == index.number()
        for name in names:
            for reverse in (False, True):
                low, high = sorted(random.choices([bytes(8), *scores, b"\xff" * 8], k=2))
                for bounds in ((low, high), (bytes(8), b"\xff" * 8)):
                    expected = list(held.scan(name, *bounds, reverse=reverse))
                    assert expected == list(index.scan(name, *bounds, reverse=reverse))
            for item in items[:100]:
                assert held.score(name, item) == index.score(name, item)


@pytest.mark.parametrize("reverse", [False, True])
def test_pages_go_on_within_one_score(index_server: Oracle, *, reverse: bool) -> None:
    """More items of one score than two pages have, and others before and behind: each comes once, in order."""
    held = {
        b"\0%04d" % number: pack_score(0.0 if 10 <= number < 3200 else float(number - 10)) for number in range(3300)
    }
    expected = sorted(((score, item) for item, score in held.items()), reverse=reverse)
    with closing(RedisIndex(f"unix://{index_server.path}", "topic", 0, "owner")) as index:
        index.apply(1, changes_of({b"c#": dict(held)}))

        assert expected == list(index.scan(b"c#", bytes(8), b"\xff" * 8, reverse=reverse))


def test_a_state_has_its_sorted_sets_in_the_server(index_server: Oracle, settings: Settings) -> None:
    """Under the document's names, and nothing else but the record of whose they are; the state is sound with it."""
    machine, store = open_machine(settings)
    send(machine, *LINES)
    version = machine.position.last_version - 1
    store.close()
    oracle = index_server.connect()

    keys = sorted(oracle.call("KEYS", "*"))
    name = b"c#default" + b"board" + version.to_bytes(8)
    assert [name, b"c#default" + b"gone" + (version + 1).to_bytes(8), b"slotlog/slotlog/0"] == keys
    assert [b"\0cy", b"\0ann", b"\1" + md5(LONG.encode(), usedforsecurity=False).digest()] == oracle.call(
        "ZRANGE", name, 0, -1
    )
    assert [-0.1, 1.5, math.inf] == list(map(float, oracle.call("ZRANGE", name, 0, -1, "WITHSCORES")[1::2]))
    assert [] == violations(settings)
    oracle.close()


def test_a_kill_between_the_two_is_repaired_at_the_next_opening(settings: Settings) -> None:
    """The state has the batch and the server does not: it is repeated, and the events go on behind it."""
    machine, store = open_machine(settings)
    send(machine, *LINES)
    apply(machine, event(machine.next_offset, "ZINCRBY board 5 ann"))
    assert isinstance(store, IndexedState)
    store._index.close()  # as if the process had ended behind the write into the state
    with pytest.raises(IndexUnavailableError, match="is closed"):
        machine.commit(FINGERPRINT)
    store.close()

    machine, store = open_machine(settings)
    assert 6.5 == machine.read(b"ZSCORE", [b"board", b"ann"])
    assert [11.5] == send(machine, "ZINCRBY board 5 ann")
    store.close()
    assert [] == violations(settings)


def test_a_server_that_went_away_and_came_back_goes_on(index_server: Oracle, settings: Settings) -> None:
    """Reads and writes say that it is away, and so does an opening; what it kept is used again."""
    machine, store = opened_anew(settings)
    index_server.kill()
    with pytest.raises(IndexUnavailableError, match="cannot be used"):
        apply(machine, event(machine.next_offset, "ZINCRBY board 5 ann"))
    store.close()
    with pytest.raises(IndexUnavailableError, match="cannot be used"):
        open_machine(settings)
    index_server.start()

    machine, store = open_machine(settings)
    assert [6.5] == send(machine, "ZINCRBY board 5 ann")
    store.close()


def test_a_connection_that_broke_is_not_made_anew(index_server: Oracle, settings: Settings) -> None:
    """The server may have come back with less: only an opening, which compares, goes on."""
    machine, store = opened_anew(settings)
    index_server.kill()
    index_server.start()
    for _ in range(2):
        with pytest.raises(IndexUnavailableError, match="cannot be used"):
            apply(machine, event(machine.next_offset, "ZINCRBY board 5 ann"))
    store.close()


def test_what_the_server_lost_is_found_and_a_replay_repairs_it(index_server: Oracle, settings: Settings) -> None:
    """The opening refuses it and says what to do; the log, a new directory and an empty index give all of it again."""
    machine, store = open_machine(settings)
    for line in LINES:
        send(machine, line)
    whole = digest(store, machine.layout, 0)
    store.close()
    oracle = index_server.connect()
    oracle.call("FLUSHALL")
    with pytest.raises(StateMismatchError, match=r"the index has lost .* `slotlog replay --to NEW` and an empty index"):
        open_machine(settings)

    again = settings.model_copy(update={"data": settings.data.parent / "again"})
    machine, store = open_machine(again)
    send(machine, *LINES)
    assert whole == digest(store, machine.layout, 0)
    store.close()
    oracle.close()


def test_emptied_under_way_it_takes_no_more(index_server: Oracle, settings: Settings) -> None:
    """The next batch meets the number that is gone, and nothing of it is written there."""
    machine, store = open_machine(settings)
    send(machine, *LINES)
    oracle = index_server.connect()
    oracle.call("FLUSHALL")
    apply(machine, event(machine.next_offset, "ZADD other 1 a"))
    with pytest.raises(StateMismatchError, match="stands at batch 0, and the next one is 2"):
        machine.commit(FINGERPRINT)
    store.close()

    assert [] == oracle.call("KEYS", "*")
    oracle.close()


@pytest.mark.parametrize("number", [1, 2, 4])
def test_a_batch_is_applied_in_its_turn_alone(index_server: Oracle, number: int) -> None:
    """One that was applied before, the newest once more, or one too early: refused, and nothing of it is written."""
    with closing(RedisIndex(f"unix://{index_server.path}", "topic", 0, "owner")) as index:
        for each in (1, 2):
            index.apply(each, changes_of({b"c#": {b"\0a": pack_score(float(each))}}))
        with pytest.raises(StateMismatchError, match=f"stands at batch 2, and the next one is {number}"):
            index.apply(number, changes_of({b"c#": {b"\0a": pack_score(9.0)}}, b"c#"))

        assert (2, pack_score(2.0)) == (index.number(), index.score(b"c#", b"\0a"))


def test_a_set_that_the_state_does_not_have_is_found(index_server: Oracle, settings: Settings) -> None:
    """More of them than one page of names has, each by its key; what else the database has is none of its business."""
    machine, store = open_machine(settings)
    send(machine, *LINES)
    store.close()
    oracle = index_server.connect()
    names = [b"c#defaultstray" + number.to_bytes(8) for number in range(1500)]
    oracle.pipeline([["ZADD", name, 1, b"\0a"] for name in names])
    oracle.pipeline([["SET", "c#defaultstring", "v"], ["ZADD", "other", 1, "a"]])
    oracle.close()

    expected = "orphans: the index has a sorted set of b'stray' of database 0 that the state does not have"
    assert {expected: 1500} == Counter(violations(settings))


def test_a_batch_of_another_owner_is_refused(index_server: Oracle) -> None:
    """Two states that were opened with one empty database: the second one to write meets the record of the first."""
    url = f"unix://{index_server.path}"
    with closing(RedisIndex(url, "topic", 0, "one")) as one, closing(RedisIndex(url, "topic", 0, "two")) as two:
        one.apply(1, changes_of({b"c#": {b"\0a": pack_score(1.0)}}))
        with pytest.raises(StateMismatchError, match="the index of another state"):
            two.apply(1, changes_of({b"c#": {b"\0a": pack_score(2.0)}}))

        assert pack_score(1.0) == one.score(b"c#", b"\0a")


def test_a_batch_that_fails_inside_is_repeated(index_server: Oracle, settings: Settings) -> None:
    """A foreign key in the place of a set: the batch is not counted as applied, and is once the key is gone."""
    machine, store = open_machine(settings)
    send(machine, "ZADD a 1 x")
    foreign = b"c#defaultb" + (machine.position.last_version + 1).to_bytes(8)
    oracle = index_server.connect()
    oracle.call("SET", foreign, "v")
    apply(machine, event(machine.next_offset, "ZADD a 5 x"), event(machine.next_offset + 1, "ZADD b 2 y"))
    with pytest.raises(IndexUnavailableError, match="WRONGTYPE"):
        machine.commit(FINGERPRINT)
    store.close()
    for _ in range(2):
        with pytest.raises(IndexUnavailableError, match="WRONGTYPE"):
            open_machine(settings)
    oracle.call("DEL", foreign)

    machine, store = open_machine(settings)
    assert [5.0, 2.0] == [machine.read(b"ZSCORE", words) for words in ([b"a", b"x"], [b"b", b"y"])]
    store.close()
    oracle.close()
    assert [] == violations(settings)


def test_it_is_of_one_state_alone(settings: Settings) -> None:
    """Another one is told to take another database, and does."""
    machine, store = open_machine(settings)
    send(machine, *LINES)
    store.close()
    other = settings.model_copy(update={"data": settings.data.parent / "other"})
    with pytest.raises(StateMismatchError, match=r"the index of another state.*another database.*FLUSHDB"):
        open_machine(other)
    url = settings.index.get_secret_value() + "?db=1"
    other = Settings(data=settings.data.parent / "other", layout="camellia-v1", index=SecretStr(url))
    machine, store = open_machine(other)
    send(machine, *LINES)
    store.close()

    assert [[], []] == [violations(each) for each in (settings, other)]


def test_a_state_is_opened_with_its_index_or_not_at_all(settings: Settings) -> None:
    """Without it, or with one where it needs none, the error says which setting it is."""
    machine, store = open_machine(settings)
    send(machine, *LINES)
    store.close()
    with pytest.raises(ConfigError, match="SLOTLOG_INDEX=redis"):
        open_machine(Settings(data=settings.data, layout="camellia-v1"))
    with pytest.raises(ConfigError, match="--index: the layout neokv has"):
        open_machine(Settings(data=settings.data.parent / "neokv", layout="neokv", index=settings.index))
    with pytest.raises(ConfigError, match=r"--index: .* is no URL of a server"):
        open_machine(Settings(data=settings.data.parent / "new", layout="camellia-v1", index=SecretStr("nothing")))


def test_who_reads_beside_a_service_reads_one_state_or_none(settings: Settings) -> None:
    """As long as nothing is written it is that of the service; from then on the reader is refused."""
    machine, store = open_machine(settings)
    send(machine, *LINES)
    with reading(settings, 0) as (_, reader):
        assert 1.5 == reader.read(b"ZSCORE", [b"board", b"ann"])
        send(machine, "ZADD board 9 ann")
        for read in ((b"ZSCORE", [b"board", b"ann"]), (b"ZRANGE", [b"board", b"0", b"-1"])):
            with pytest.raises(IndexUnavailableError, match="has gone on while it was read"):
                reader.read(*read)
    store.close()


def test_a_password_is_in_no_error(index_server: Oracle, settings: Settings) -> None:
    """Neither that of the URL nor its user."""
    wrong = Settings(
        data=settings.data, layout="camellia-v1", index=SecretStr(f"unix://ann:secret@{index_server.path}")
    )
    with pytest.raises(IndexUnavailableError) as raised:
        open_machine(wrong)

    assert "secret" not in str(raised.value)
