"""`slotlog deadletters`: found, shown, and sent again once, in order, on both logs."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from engine.tables.system import RULES
from ingest.dead_letters.finding import open_search
from ingest.dead_letters.found import Again, Wanted, Went
from ingest.dead_letters.kafka_store import KafkaDeadLetters
from ingest.dead_letters.stores import open_dead_letters
from ops.cli.repair.deadletters import printable
from ops.dead_letters.resend import derived_id, with_id
from slotlog.events import decode, encode
from slotlog.log import Entry, open_log
from tests.faults.service import ServiceProcess
from tests.ops.dead_letters.dead import KEYS, PARTITIONS, Place, entry, entry_time, letter, place_at
from tests.ops.verbs import run, succeed, wait_until


@pytest.fixture
def local(tmp_path: Path) -> Place:
    """An embedded log."""
    url = f"sqlite:///{tmp_path / 'log.sqlite3'}"
    return place_at(url, "orders", tmp_path)


@pytest.fixture(params=["embedded", "kafka"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A log of either kind, with one record in each partition."""
    if request.param == "embedded":
        return place_at(f"sqlite:///{tmp_path / 'log.sqlite3'}", "orders", tmp_path)
    return place_at(f"kafka://{request.getfixturevalue('kafka_bootstrap')}", f"dead-{uuid4().hex}", tmp_path)


def verb(place: Place, *words: object) -> Any:
    """What a verb says that must work, as JSON."""
    return json.loads(succeed("deadletters", *words, *place.options, "--json"))


def redriven(place: Place, *words: object) -> tuple[int, list[tuple[Any, ...]]]:
    """The exit code of a redrive, and (partition, offset, outcome) of each letter."""
    result = run("deadletters", "redrive", *words, *place.options, "--json")
    assert result.stdout, result.stderr
    letters = json.loads(result.stdout)["letters"]
    return result.exit_code, [(each["partition"], each["offset"], each["outcome"]) for each in letters]


def state_after_replay(place: Place, directory: Path, *queries: tuple[str, ...]) -> list[str]:
    """What queries say of a state built from the log."""
    succeed("replay", *place.options, "--to", directory)
    return [succeed("query", "--data", directory, *query).strip() for query in queries]


def test_list_and_show(place: Place) -> None:
    """`list` has the latest first, ranges in their order, and no content; `show` has all of it, bytes up to a bound."""
    big = encode("SET", [KEYS[0][0], "v" * 1000], db=3, id="own")
    headers = (("trace", b"\xff"), ("none", None))
    place.store(
        *[letter(place, 1, offset, b"\xc1") for offset in range(4)],
        letter(place, 0, 9, big, headers=headers),
        letter(place, 0, 7, None),
    )
    newest = verb(place, "list", "--limit", 3)
    by_range = verb(place, "list", "--partition", 1, "--offset", "1-2")
    whole = verb(place, "show", 0, 9, "--bytes", 4)
    empty = verb(place, "show", 0, 7)
    text = succeed("deadletters", "show", 0, 9, "--bytes", 40, *place.options)
    absent = run("deadletters", "show", 0, 8, *place.options)

    assert [(0, 9), (0, 7), (1, 3)] == [(each["partition"], each["offset"]) for each in newest]
    assert [(1, 1), (1, 2)] == [(each["partition"], each["offset"]) for each in by_range]
    assert (len(big) + 2, None) == (newest[0]["bytes"], newest[0]["redriven"])
    assert {"args", "value", "headers", "key"}.isdisjoint(newest[0])
    assert big[:4].hex() == whole["value"]
    assert ("SET", [KEYS[0][0].decode(), "v" * 1000], 3, "own") == tuple(whole["event"].values())
    assert [["trace", {"base64": "/w=="}], ["none", None]] == whole["headers"]
    assert "db 3: a topic of several partitions has database 0 alone" == whole["refused"]
    assert (None, None, "the record has no value") == tuple(empty[name] for name in ("event", "value", "refused"))
    assert f'SET "{KEYS[0][0].decode()}" "{"v" * 200}" and 800 bytes more (database 3) (id "own")' in text
    assert f"  000020  {big[32:40].hex(' ')}\n  and {len(big) - 40} bytes more" in text
    assert (1, 1) == (absent.exit_code, absent.stderr.count("\n"))


def test_a_line_stays_a_line(local: Place) -> None:
    """A reason may repeat bytes of an event: nothing in it reaches the terminal as a line end or an escape code."""
    local.store(letter(local, 0, 0, b"", reason="unknown field \x1b[31m\n\u202eevil"))
    line = succeed("deadletters", "list", *local.options)

    assert 1 == line.count("\n")
    assert "unknown field \\x1b[31m\\n\\u202eevil" in line
    assert "ünïcode" == printable("ünïcode")


def test_sent_once_and_in_order(place: Place, tmp_path: Path) -> None:
    """Letters go to the partition of their keys in the order of their positions; a second redrive does nothing."""
    key = KEYS[1][0]
    appends = [encode("APPEND", [key, digit]) for digit in "123"]
    place.append(*[Entry(0, None, value) for value in appends])
    headers = (("trace", b"abc"),)
    place.store(*[letter(place, 0, 1 + at, appends[at], headers=headers) for at in (2, 0, 1)])
    dry = redriven(place, "--all", "--dry-run")
    untouched = len(place.records(1))
    first = redriven(place, "--all")
    second = redriven(place, "--all")
    listed = verb(place, "list")
    records = place.records(1)

    assert (0, [(0, 1, "would_be_sent"), (0, 2, "would_be_sent"), (0, 3, "would_be_sent")]) == dry
    assert 1 == untouched
    assert (0, [(0, 1, "sent"), (0, 2, "sent"), (0, 3, "sent")]) == first
    assert (0, [(0, 1, "sent_before"), (0, 2, "sent_before"), (0, 3, "sent_before")]) == second
    assert 4 == len(records)
    assert [{"partition": 1, "offset": 4 - at} for at in (1, 2, 3)] == [each["redriven"] for each in listed]
    assert ['"123"'] == state_after_replay(place, tmp_path / "to", ("GET", key.decode()))
    if place.url.startswith("kafka"):
        assert (("trace", b"abc"), ("slotlog.redrive", f"{place.topic}/0/1".encode())) == records[1][1]


def test_sent_twice_is_applied_once(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A redrive that ended before its marks were kept can be repeated: nothing is sent a second time."""

    async def fail(*_: object) -> None:
        raise OSError("the power went")

    place.append(entry(0, "INCR", KEYS[1][0]))
    place.store(letter(place, 0, 1, encode("INCR", [KEYS[1][0]])))
    with monkeypatch.context() as patched:
        patched.setattr(KafkaDeadLetters, "store", fail)
        patched.setattr("ingest.dead_letters.embedded_finding._MARK", "INSERT INTO nowhere VALUES (?, ?, ?, ?, ?, ?)")
        failed = run("deadletters", "redrive", "--all", *place.options)
    there = len(place.records(1)) - 1
    again = redriven(place, "--all")

    assert 1 == failed.exit_code
    assert (1 if place.url.startswith("kafka") else 0) == there
    assert (0, [(0, 1, "sent_before" if there else "sent")]) == again
    assert 2 == len(place.records(1))
    assert [{"partition": 1, "offset": 1}] == [each["redriven"] for each in verb(place, "list")]
    assert ['"1"'] == state_after_replay(place, tmp_path / "to", ("GET", KEYS[1][0].decode()))


def test_refused_before_anything_is_sent(place: Place) -> None:
    """What would be a dead letter again, stop its partition, or is not whole stays where it is, with the reason."""
    key = KEYS[0][0]
    cut = (("slotlog.truncated", b"key 2 bytes"),)
    place.store(
        letter(place, 0, 1, b"\xc1"),
        letter(place, 0, 2, encode("NOSUCH", [])),
        letter(place, 0, 3, encode("SET", [key])),
        letter(place, 0, 4, encode("RULES", [RULES + 1])),
        letter(place, 0, 5, encode("EXEC", [["SET", key, "1"], ["SET", KEYS[0][1], "1"]])),
        letter(place, 0, 6, encode("SWAPDB", [0, 1])),
        letter(place, 0, 7, encode("SET", [key, "v"]), headers=cut),
        letter(place, 0, 8, encode("SET", [key, "v"], session=b"s" * 16)),
        letter(place, 0, 9, None),
    )
    result = run("deadletters", "redrive", "--all", *place.options)
    lines = result.stdout.splitlines()

    assert 1 == result.exit_code
    assert [1, 1] == [len(place.records(partition)) for partition in range(PARTITIONS)]
    assert [f"partition 0 offset {offset}: refused" for offset in range(1, 10)] == [
        ":".join(line.split(":")[:2]) for line in lines[:-1]
    ]
    for line, reason in zip(
        lines,
        ("msgpack", "unknown command", "arguments", "RULES", "CROSSSLOT", "cluster", "large", "watching", "no value"),
        strict=False,
    ):
        assert reason in line
    assert "9 refused" == lines[-1]


def test_later_events_keep_a_letter_back(place: Place, tmp_path: Path) -> None:
    """A letter whose keys have later events that were applied waits for --out-of-order; other keys do not matter."""
    late, free, third = KEYS[0][:3]
    place.append(
        entry(0, "SET", late, "old"),  # offset 1: a letter
        entry(0, "SET", free, "old"),  # 2: a letter
        entry(0, "GET", third),
        entry(0, "NOSUCH", free),  # 4: was never applied
        entry(0, "SET", free, "newer"),  # 5: a letter too, so it was not either
        entry(0, "SET", late, "new"),  # 6
        entry(0, "EXPIRE", late, 100),
    )
    place.store(
        letter(place, 0, 1, encode("SET", [late, "old"])),
        letter(place, 0, 2, encode("SET", [free, "old"])),
        letter(place, 0, 4, encode("NOSUCH", [free])),
        letter(place, 0, 5, encode("SET", [free, "newer"])),
    )
    result = run("deadletters", "redrive", "--offset", "1-2", *place.options)
    forced = run("deadletters", "redrive", "--offset", "1", "--out-of-order", *place.options)

    assert [
        (
            "partition 0 offset 1: kept back: partition 0 has 2 later events of its keys, the first at offset 6; "
            "--out-of-order sends it all the same"
        ),
        "partition 0 offset 2: sent to partition 0, offset 8",
        "1 sent, 1 kept back",
    ] == result.stdout.splitlines()
    assert 1 == result.exit_code
    assert (
        "partition 0 offset 1: sent to partition 0, offset 9; "
        "out of order: after 2 later events of its keys, the first at offset 6\n1 sent\n"
    ) == forced.stdout
    assert 0 == forced.exit_code
    assert ['"old"'] == state_after_replay(place, tmp_path / "to", ("GET", late.decode()))


def test_flushall_touches_every_key(local: Place) -> None:
    """A FLUSHALL that came later keeps any letter back, a TICK none; one that is a letter goes to its own partition."""
    key = KEYS[0][0]
    local.append(entry(0, "SET", key, "v"), entry(0, "TICK"), entry(1, "FLUSHALL"))
    local.store(letter(local, 0, 1, encode("SET", [key, "v"])), letter(local, 1, 1, encode("FLUSHALL", [])))
    first = redriven(local, "--all")
    local.append(entry(0, "SET", key, "v"), entry(0, "FLUSHALL"))
    local.store(letter(local, 0, 4, encode("SET", [key, "v"])))

    assert (0, [(0, 1, "sent"), (1, 1, "sent")]) == first
    assert [4 + 2, 3] == [len(local.records(partition)) for partition in range(PARTITIONS)]
    assert [(0, 4, "kept_back")] == redriven(local, "--partition", 0, "--offset", 4)[1]


def test_letter_of_another_partition_is_judged_by_time(local: Place) -> None:
    """What came to the right partition before the letter's time does not keep it back; what came after it does."""
    early, late = KEYS[1][:2]
    local.append(
        Entry(0, None, encode("SET", [early, "v"])),
        Entry(0, None, encode("SET", [late, "v"])),
        Entry(1, None, encode("SET", [early, "v"])),
        Entry(1, None, encode("SET", [late, "v"])),
    )
    times = [entry_time(local, 1, 1), entry_time(local, 1, 2)]
    local.store(
        letter(local, 0, 1, encode("SET", [early, "v"]), time_ms=times[0] + 1),
        letter(local, 0, 2, encode("SET", [late, "v"]), time_ms=times[0]),
    )
    code, outcomes = redriven(local, "--all")

    assert times[0] <= times[1]
    assert (1, [(0, 1, "sent"), (0, 2, "kept_back")]) == (code, outcomes)


def test_what_stays_behind_is_said(local: Place) -> None:
    """A letter that goes before an earlier one of the same key that does not: the line says which that is."""
    key = KEYS[0][0]
    local.append(*[entry(0, "APPEND", key, str(number)) for number in range(2)])
    local.store(*[letter(local, 0, 1 + number, encode("APPEND", [key, str(number)])) for number in range(2)])
    result = run("deadletters", "redrive", "--partition", 0, "--offset", 2, *local.options)

    assert (
        "partition 0 offset 2: sent to partition 0, offset 3; "
        "the dead letter of the same key at offset 1 stays behind\n1 sent\n"
    ) == result.stdout


def test_bytes_are_the_original_ones(local: Place) -> None:
    """An event with an id is sent as it was, byte for byte; one without gets one more field behind the others."""
    key = KEYS[0][0]
    own = encode("SET", [key, "v"], id="mine", meta={"who": "me"})
    wide = b"\xde\x00\x04" + encode("SET", [key, 1.5], meta={"who": "me"})[1:]
    local.store(letter(local, 0, 10, own), letter(local, 0, 11, wide))
    assert [(0, 10, "sent"), (0, 11, "sent")] == redriven(local, "--all")[1]
    (sent_own, _), (sent_wide, _) = local.records(0)[1:]

    assert own == sent_own
    assert sent_wide is not None
    assert sent_wide.startswith(b"\x85" + wide[3:] + b"\xa2id")
    assert derived_id(letter(local, 0, 11, wide)).encode() == decode(0, 0, sent_wide)[5]
    assert decode(0, 0, wide)[:5] == decode(0, 0, sent_wide)[:5]
    assert 5 == len({derived_id(letter(local, p, o, v)) for p, o, v in ((0, 1, b"a"), (0, 2, b"a"), (1, 1, b"a"))}) + 2
    assert decode(0, 0, encode("PING", [], id="x")) == decode(0, 0, with_id(encode("PING", []), "x"))


def test_many_letters_come_in_pages(place: Place) -> None:
    """More letters than one page holds: all are found, once, in their order, also where a topic has them twice."""
    letters = [letter(place, number % 2, number, b"\xc1") for number in range(700)]
    place.store(*letters)
    place.store(*letters[100:200])

    async def walk() -> list[tuple[int, int]]:
        log = open_log(place.url, topic=place.topic, partitions=PARTITIONS)
        await log.start()
        dead = open_dead_letters(log)
        await dead.start()
        shelf = open_search(log, dead)
        found: list[tuple[int, int]] = []
        after = (-1, -1)
        while page := await shelf.page(Wanted(), after, 64):
            found += [(each.dead_letter.partition, each.dead_letter.offset) for each in page]
            after = found[-1]
        await dead.close()
        await log.close()
        return found

    assert sorted((number % 2, number) for number in range(700)) == asyncio.run(walk())
    assert 300 == len(verb(place, "list", "--limit", 300))


def test_beside_a_running_service(local: Place, tmp_path: Path) -> None:
    """A service goes on while letters are listed and sent again, and applies them."""
    local.append(entry(0, "SET", KEYS[1][0], "v"))
    with ServiceProcess([*local.options, "--http", ""]) as service:
        service.wait_for("started")
        wait_until(lambda: len(verb(local, "list")) == 1, "the letter")
        assert [(0, 1, "sent")] == redriven(local, "--all")[1]
        wait_until(
            lambda: '"v"\n' == succeed("query", "--data", tmp_path / "data", "GET", KEYS[1][0].decode()), "the event"
        )
        assert 0 == service.terminate()


@pytest.mark.parametrize(
    "words",
    [
        ["redrive"],
        ["redrive", "--all", "--partition", "0"],
        ["redrive", "--offset", "x"],
        ["show", "0"],
        ["list", "--limit", "0"],
        ["list", "--limit", str(1 << 64)],
        ["list", "--partition", str(1 << 64)],
        ["show", "0", str(1 << 64)],
        ["list", "--partition", "5"],
        ["list", "--offset", "5-2"],
    ],
)
def test_wrong_usage(words: list[str], local: Place) -> None:
    """Nothing is sent unless it is said what, and what cannot be meant is exit code 2."""
    assert 2 == run("deadletters", *words, *local.options).exit_code


@pytest.mark.parametrize("name", ["list", "show", "redrive"])
def test_help_has_an_example(name: str) -> None:
    """--help of each shows a whole line to type, with options that there are."""
    said = " ".join(succeed("deadletters", name, "--help").split())
    example = re.search(rf"Example: slotlog deadletters {name}([^:]*)", said)

    assert example is not None
    assert [] == [
        option for option in re.findall(r"--[a-z-]+", example[1]) if f"{option} " not in said.split("Options:")[1]
    ]


def test_nothing_to_send(local: Place) -> None:
    """A letter that is not there is an error, said in one line."""
    result = run("deadletters", "redrive", "--offset", "5", *local.options)

    assert (1, 1) == (result.exit_code, result.stderr.count("\n"))
    assert "no such dead letter" in result.stderr


async def test_a_letter_that_another_has_sent_meanwhile_is_not_sent_again(tmp_path: Path) -> None:
    """Of two processes that read the same letters before either sent them, one sends each."""
    place = Place(f"sqlite:///{tmp_path / 'log.sqlite3'}", "orders", [])
    logs = [open_log(place.url, topic=place.topic, partitions=PARTITIONS) for _ in range(2)]
    for log in logs:
        await log.start()
    dead = [open_dead_letters(log) for log in logs]
    await dead[0].store([letter(place, 0, offset, encode("SET", [KEYS[0][offset], "1"])) for offset in range(2)])
    letters = [open_search(log, letters) for log, letters in zip(logs, dead, strict=True)]
    pages = [await each.page(Wanted()) for each in letters]
    batches = [
        [Again(found.dead_letter, Entry(0, None, found.dead_letter.value or b"")) for found in page] for page in pages
    ]
    first, second = [await each.send(batch) for each, batch in zip(letters, batches, strict=True)]

    assert ([Went(0, 0), Went(0, 1)], [None, None]) == (first, second)
    assert 2 == await logs[0].end_offset(0)
    for log in logs:
        await log.close()
