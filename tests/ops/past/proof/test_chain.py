"""`slotlog chain`, and the heads in digests and snapshots: a log with another record is found out."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from ops.config import load_settings
from slotlog.events import encode
from slotlog.log.embedded.file.chain import OFFSET_MASK, seals_of
from slotlog.log.embedded.file.heads import head_of, set_head
from slotlog.log.hash_chain import first_head, head_behind
from tests.ops.past.logs import START_MS, entry, write_log
from tests.ops.past.proof.states import apply, with_state
from tests.ops.verbs import run, succeed

EVENTS = 2500
CHANGED = 1500


def incr(number: int) -> tuple[int, str, list[Any]]:
    """One of the events of these logs."""
    return number, "INCRBY", ["n", str(number)]


def forge(data: Path, offset: int, value: bytes) -> None:
    """Change one record of an embedded log, and every checksum that would tell; the mark beside the log is removed."""
    (data / "log.sqlite3-head").unlink(missing_ok=True)
    with closing(sqlite3.connect(data / "log.sqlite3")) as connection, connection:
        connection.execute("UPDATE records SET value = ? WHERE position = ?", (value, offset))
        head = head_of(connection, 0)
        rows = connection.execute("SELECT position, time_ms, key, value FROM records ORDER BY position").fetchall()
        records = [(position & OFFSET_MASK, *rest) for position, *rest in rows]
        seals = seals_of(head.begin_link, records)
        for (position, *_), seal in zip(rows, seals, strict=True):
            connection.execute("UPDATE records SET seal = ? WHERE position = ?", (seal, position))
        set_head(connection, 0, head._replace(link=bytes(seals[-1][4:])))


def heads_of(data: Path, *offsets: int) -> dict[int, str]:
    """What `slotlog chain` prints, by offset."""
    texts = (succeed("chain", "--data", data, "--at", offset).strip() for offset in offsets)
    return {int(text.split(":")[1]): text for text in texts}


def checked(verb: Sequence[object], *options: object) -> tuple[int, Any]:
    """Exit code, and what is said of the only partition's log."""
    result = run(*verb, "--json", *options)
    (said,) = json.loads(result.stdout)["partitions"]
    return result.exit_code, said.get("log", said)


def test_a_head_is_what_its_page_says(tmp_path: Path) -> None:
    """It is the hash over the records before an offset, at the log's end if no other is asked for."""
    data = write_log(tmp_path / "data", map(incr, range(5)))
    records = [(number, START_MS + number, None, entry(incr(number)).value) for number in range(5)]
    expected = [f"0:{end}:{head_behind(first_head(0), records[:end]).hex()}\n" for end in (0, 3, 5)]

    assert expected == [
        succeed("chain", "--data", data, "--at", 0),
        succeed("chain", "--data", data, "--at", 3),
        succeed("chain", "--data", data),
    ]
    assert "ends at offset 5, before 6" in run("chain", "--data", data, "--at", 6).stderr


def test_digest_and_snapshot_name_it(tmp_path: Path) -> None:
    """The head at the state's position stands in the digest and in the manifest of a snapshot."""
    data, store = write_log(tmp_path / "data", map(incr, range(5))), tmp_path / "store"
    apply(data, "--until", 4)
    head = heads_of(data, 4)[4].split(":")[2]
    succeed("snapshot", "--data", data, "--to", store)
    (manifest,) = store.glob("snapshots/*/0/*.json")

    assert f"  chain     {head}\n" in succeed("digest", "--data", data, "--chain")
    assert head == json.loads(succeed("digest", "--data", data, "--chain", "--json"))["partitions"][0]["chain"]
    assert "chain" not in succeed("digest", "--data", data)
    assert head == json.loads(manifest.read_bytes())["chain"]


def test_without_the_log_a_digest_says_why(tmp_path: Path) -> None:
    """The digest is there without the chain, and a note says what the log answered."""
    data = with_state(tmp_path / "data", map(incr, range(5)))
    (data / "log.sqlite3").rename(tmp_path / "gone")
    result = run("digest", "--data", data, "--chain")

    assert (0, False) == (result.exit_code, "chain  " in result.stdout)
    assert "the head of the chain is not known" in result.stderr


@pytest.mark.parametrize("verb", ["chain", "verify"])
def test_a_forged_record_of_the_embedded_log(tmp_path: Path, verb: str) -> None:
    """All of the log's own checksums fit, and one record is another: its range is named, by what heads there are."""
    data = with_state(tmp_path / "data", map(incr, range(EVENTS)))
    noted = heads_of(data, 100, 1400, 1600, 2400)
    heads = [option for text in noted.values() for option in ("--head", text)]
    words = (verb, "--data", data, *(["--check"] if verb == "chain" else []))

    exit_code, found = checked(words, *heads)
    assert (0, 0, EVENTS, []) == (exit_code, found["begin_offset"], found["end_offset"], found["changed"])

    forge(data, CHANGED, encode("INCRBY", ["n", "1501"]))
    succeed("check", "--log", "--data", data)
    exit_code, found = checked(words, *heads)
    by = {each["kept_by"]: (each["from"], each["to"]) for each in found["changed"]}
    assert (1, {"data": (1400, 1599), "given": (1400, 1599)}) == (exit_code, by)

    for path in (data / "chain").iterdir():
        path.unlink()
    exit_code, found = checked(words, "--head", noted[100], "--head", noted[2400])
    assert (1, [{"from": 100, "to": 2399, "kept_by": "given"}]) == (exit_code, found["changed"])
    assert (
        "CHANGED between offset 100 and offset 2399, as a given head says"
        in run(*words, "--head", noted[100], "--head", noted[2400]).stdout
    )


def test_what_verify_saw_it_knows_again(tmp_path: Path) -> None:
    """Without any head from outside: those of the first look are kept, and the second one finds the forgery.

    The state is what it was, so it is not what the log makes of it any more.
    """
    data = with_state(tmp_path / "data", map(incr, range(50)))
    succeed("verify", "--data", data)
    forge(data, 7, encode("INCRBY", ["n", "8"]))
    result = run("verify", "--data", data, "--json")
    (said,) = json.loads(result.stdout)["partitions"]

    assert (1, [{"from": 0, "to": 49, "kept_by": "data"}]) == (result.exit_code, said["log"]["changed"])
    assert ["n"] == [each["key"] for each in said["differences"]]


def test_a_manifest_of_a_snapshot_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store of snapshots alone says so, where the data directory has no heads."""
    data = with_state(tmp_path / "data", map(incr, range(50)))
    monkeypatch.setenv("SLOTLOG_SNAPSHOTS__URL", str(tmp_path / "store"))
    succeed("snapshot", "--data", data)
    (data / "chain" / "0").unlink()
    forge(data, 7, encode("INCRBY", ["n", "8"]))

    exit_code, found = checked(("chain", "--check", "--data", data))
    assert (1, [{"from": 0, "to": 49, "kept_by": "snapshot"}]) == (exit_code, found["changed"])


@pytest.mark.parametrize("words", [("chain", "--check"), ("verify",), ("verify", "--from-snapshot")])
@pytest.mark.parametrize("address", ["{}", "file://{}"])
def test_before_the_first_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], address: str
) -> None:
    """A directory of snapshots that is not there has no heads: that is said once, and nothing is made."""
    data, store = with_state(tmp_path / "data", map(incr, range(50))), tmp_path / "store"
    monkeypatch.setenv("SLOTLOG_SNAPSHOTS__URL", address.format(store))
    result = run(*words, "--data", data)

    assert (0, 1) == (result.exit_code, result.stderr.count(f"there is no directory {store}, so no snapshots yet"))
    assert (True, False) == ("no head of it was noted yet" in result.stdout, store.exists())
    store.mkdir()
    assert "no snapshots yet" not in run(*words, "--data", data).stderr


@pytest.mark.parametrize("words", [("chain", "--check"), ("verify",)])
def test_a_wrong_address_of_snapshots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]) -> None:
    """An address that names no store is refused, and not taken for a directory that is not there yet."""
    data = with_state(tmp_path / "data", map(incr, range(5)))
    monkeypatch.setenv("SLOTLOG_SNAPSHOTS__URL", "file://backup/snaps")
    result = run(*words, "--data", data)

    assert result.exit_code
    assert "'file://backup/snaps' is no address of snapshots" in result.stderr


def test_two_changes_are_two_ranges(tmp_path: Path) -> None:
    """Behind a head that differs the chain goes on from what was noted."""
    data = write_log(tmp_path / "data", map(incr, range(300)))
    heads = [option for text in heads_of(data, 50, 150, 200, 250).values() for option in ("--head", text)]
    (data / "chain" / "0").unlink()
    for offset in (60, 249):
        forge(data, offset, encode("INCRBY", ["n", "0"]))

    exit_code, found = checked(("chain", "--data", data), *heads)
    assert (1, [(50, 149), (200, 249)]) == (exit_code, [(each["from"], each["to"]) for each in found["changed"]])


def test_a_log_that_was_cut(tmp_path: Path) -> None:
    """A head that lies behind the log's end says that records are gone."""
    head = heads_of(write_log(tmp_path / "whole", map(incr, range(20))), 20)[20]
    data = write_log(tmp_path / "data", map(incr, range(15)))
    result = run("chain", "--data", data, "--head", head)

    assert (1, "CUT: it ends at offset 15, and a head of offset 20 was noted") == (
        result.exit_code,
        result.stdout.splitlines()[-1].partition("log       ")[2],
    )


def test_behind_a_trim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The chain goes on from a head that is kept, or from a manifest; without any it is not known."""
    data = with_state(tmp_path / "data", map(incr, range(50)))
    monkeypatch.setenv("SLOTLOG_SNAPSHOTS__URL", str(tmp_path / "store"))
    succeed("snapshot", "--data", data)
    head = heads_of(data, 50)
    succeed("trim", "--data", data)

    assert head == heads_of(data, 50)
    (data / "chain" / "0").unlink()
    assert [0, 50] == [
        checked(("chain", "--check", "--data", data))[0],
        checked(("chain", "--check", "--data", data))[1]["begin_offset"],
    ]
    (data / "chain" / "0").unlink()
    assert head == heads_of(data, 50)
    assert head[50].split(":")[2] in succeed("digest", "--data", data, "--chain")
    monkeypatch.delenv("SLOTLOG_SNAPSHOTS__URL")
    (data / "chain" / "0").unlink()
    assert "its chain is not known" in succeed("chain", "--check", "--data", data)
    assert "no head of its chain from there to offset 50 is known" in run("chain", "--data", data).stderr


def trimmed_log(data: Path, store: Path) -> dict[int, str]:
    """Make a log that begins at offset 999, and a snapshot of offset 1000; the true heads of some offsets."""
    write_log(data, map(incr, range(EVENTS)))
    heads = heads_of(data, 1000, CHANGED, EVENTS)
    (data / "chain" / "0").unlink()
    apply(data, "--until", 1000)
    succeed("snapshot", "--data", data, "--to", store)
    succeed("trim", "--data", data, "--from", store)
    return heads


@pytest.mark.parametrize("offset", [1000, CHANGED, EVENTS])
@pytest.mark.parametrize("keeps", [True, False])
def test_a_false_head_of_a_trimmed_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offset: int, *, keeps: bool
) -> None:
    """It is held against the heads of other keepers, is not what the chain goes on from, and is not kept."""
    data = tmp_path / "data"
    monkeypatch.setenv("SLOTLOG_SNAPSHOTS__URL", str(tmp_path / "store"))
    heads = trimmed_log(data, tmp_path / "store")
    if not keeps:
        (data / "chain" / "0").unlink()

    exit_code, found = checked(("chain", "--data", data), "--head", f"0:{offset}:{'0' * 64}")
    begin = 0 if offset == 1000 else 1000
    assert (1, [{"from": begin, "to": offset - 1, "kept_by": "given"}]) == (exit_code, found["changed"])
    assert heads[EVENTS].split(":")[2] == found["head"]
    assert heads == heads_of(data, *heads)
    exit_code, found = checked(("chain", "--data", data), "--head", heads[offset])
    assert (0, []) == (exit_code, found["changed"])


def test_a_given_head_that_nothing_confirms(tmp_path: Path) -> None:
    """Behind a trim it can be compared with nothing: that is said, and no head that follows from it is kept."""
    data = tmp_path / "data"
    heads = trimmed_log(data, tmp_path / "store")
    (data / "chain" / "0").unlink()
    said = succeed("chain", "--data", data, "--head", f"0:{CHANGED}:{'0' * 64}", "--head", f"0:900:{'0' * 64}")

    for offset in (900, CHANGED):
        assert f"NOT COMPARED with the given head of offset {offset}: no head before it is known" in said
    assert "no head of its chain" in run("chain", "--data", data).stderr
    exit_code, found = checked(("chain", "--data", data), "--head", heads[1000], "--head", heads[CHANGED])
    assert (0, 1, []) == (exit_code, found["compared"], found["not_compared"])
    assert heads == heads_of(data, *heads)


def test_lost_heads_are_told(tmp_path: Path) -> None:
    """A file of heads that is damaged may hide a change: who reads it says so, as long as it is not made anew."""
    data = write_log(tmp_path / "data", map(incr, range(50)))
    heads_of(data, 20, 50)
    path = data / "chain" / "0"
    whole = path.read_bytes()
    for damaged, lost in ((b"junk", "the heads in it are lost"), (whole[:-1], "of offsets after 20 are lost")):
        path.write_bytes(damaged)
        assert lost in run("chain", "--check", "--data", data).stderr
    assert "lost" not in run("chain", "--check", "--data", data).stderr


def test_kept_heads_that_are_damaged_are_made_anew(tmp_path: Path) -> None:
    """A flipped bit, or half an entry: what follows is computed from the log again, and is the same."""
    data = write_log(tmp_path / "data", map(incr, range(EVENTS)))
    before = heads_of(data, 1024, EVENTS)
    path = data / "chain" / "0"
    whole = path.read_bytes()
    for damaged in (whole[:60], whole[:60] + bytes([whole[60] ^ 1]) + whole[61:], b"junk"):
        path.write_bytes(damaged)
        assert before == heads_of(data, 1024, EVENTS)
    assert 0 == checked(("chain", "--check", "--data", data))[0]


async def rebuilt(bootstrap: str, values: Sequence[bytes]) -> str:
    """A topic with these events, whose times are what its producer says."""
    topic = f"chain-{uuid4().hex}"
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    settings = {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "message.timestamp.type": "CreateTime",
        "max.message.bytes": str(9 * 1024 * 1024),
    }
    await admin.create_topics([NewTopic(topic, 1, 1, topic_configs=settings)])
    await admin.close()
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all")
    await producer.start()
    for number, value in enumerate(values):
        await producer.send(topic, value, partition=0, timestamp_ms=START_MS + number)
    await producer.stop()
    return topic


async def test_a_topic_that_was_rebuilt_with_another_record(
    kafka_bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Offsets and times are the same, and one value is another: the range is named. A true copy is right."""
    monkeypatch.setenv("SLOTLOG_LOG", f"kafka://{kafka_bootstrap}")
    monkeypatch.setenv("SLOTLOG_KAFKA__CREATE_TIME", "true")
    values = [entry(incr(number)).value for number in range(300)]
    original, copy = await rebuilt(kafka_bootstrap, values), await rebuilt(kafka_bootstrap, values)
    values[120] = encode("INCRBY", ["n", "121"])
    forged = await rebuilt(kafka_bootstrap, values)

    def words(topic: str) -> list[object]:
        return ["chain", "--data", tmp_path / topic, "--topic", topic]

    heads = [await asyncio.to_thread(succeed, *words(original), "--at", offset) for offset in (100, 200, 300)]
    options = [option for text in heads for option in ("--head", text.strip())]
    results = [await asyncio.to_thread(checked, words(topic), *options) for topic in (original, copy, forged)]

    assert [(0, []), (0, [])] == [(code, found["changed"]) for code, found in results[:2]]
    assert (1, [{"from": 100, "to": 199, "kept_by": "given"}]) == (results[2][0], results[2][1]["changed"])


def test_several_partitions(tmp_path: Path) -> None:
    """Each has a chain of its own, also where nothing is in it."""
    data = tmp_path / "data"
    lines = tmp_path / "lines"
    lines.write_text('{"cmd": "SET", "args": ["greeting", "v"]}\n')
    succeed("produce", lines, "--data", data, "--partitions", 3)
    settings = load_settings(data=data, partitions=3)
    heads = succeed("chain", "--data", data, "--partitions", settings.partitions).splitlines()

    assert [["0", "0"], ["1", "0"], ["2", "1"]] == [line.split(":")[:2] for line in heads]
    assert 3 == len({line.split(":")[2] for line in heads})
    assert [first_head(0).hex(), first_head(1).hex()] == [line.split(":")[2] for line in heads[:2]]
