"""The demo's data, the events made from it, and the results computed from it."""

from __future__ import annotations

import gzip
import hashlib
from collections import Counter
from typing import Any

import pytest

from ops.demo.checks import carriers, checks
from ops.demo.flights import (
    DATA_FILE,
    DEPARTURES_KEPT,
    Expected,
    Flight,
    FlightEvent,
    commands,
    events,
    expected,
    read_flights,
)

DAY_MS = 24 * 3600 * 1000


def flight(name: str = "2013-01-09:HA51", **changes: Any) -> Flight:
    """A flight from JFK; only what a test is about is written in it."""
    plain = Flight(
        name=name,
        carrier="HA",
        origin="JFK",
        destination="HNL",
        tail="N384HA",
        scheduled_ms=1_357_736_400_000,
        delay_minutes=0,
    )
    return plain._replace(**changes)


def flat(event: FlightEvent) -> list[list[Any]]:
    """The commands of an event, those inside an EXEC one by one."""
    return event.args if event.name == "EXEC" else [[event.name, *event.args]]


@pytest.fixture(scope="module")
def january() -> list[Flight]:
    """All flights of the file."""
    return list(read_flights())


@pytest.fixture(scope="module")
def results(january: list[Flight]) -> Expected:
    """What the rows say."""
    return expected(january)


def test_data_is_the_published_file() -> None:
    """The CSV is, byte for byte, the one whose checksum SOURCE.md gives."""
    digest = hashlib.sha256(gzip.decompress(DATA_FILE.read_bytes())).hexdigest()

    assert digest == "a07b68f99deaefb99fde8f8b21fdc075217f72117a052339f348b1b3ec928985"
    assert digest in DATA_FILE.with_name("SOURCE.md").read_text()


def test_file_is_reproducible() -> None:
    """The gzip header carries no time stamp, so that making the file again gives the same bytes."""
    assert DATA_FILE.read_bytes()[4:8] == bytes(4)


def test_rows(january: list[Flight]) -> None:
    """January 2013 has 27,004 flights, 521 of them cancelled, and no two have the same name."""
    assert len(january) == 27_004
    assert sum(row.delay_minutes is None for row in january) == 521
    assert len({row.name for row in january}) == 27_004


def test_row_is_read(january: list[Flight]) -> None:
    """The first row is UA 1545: scheduled at 5:15 in New York, 10:15 UTC, and 2 minutes late."""
    assert january[0] == Flight(
        name="2013-01-01:UA1545",
        carrier="UA",
        origin="EWR",
        destination="IAH",
        tail="N14228",
        scheduled_ms=1_357_035_300_000,
        delay_minutes=2,
    )
    assert january[0].time_ms == 1_357_035_300_000 + 2 * 60_000


def test_commands_of_a_departure() -> None:
    """A departure is seven commands in five events; those that would count twice are idempotent."""
    sent = commands(flight(delay_minutes=1301))

    assert [(event.name, event.args, event.event_id) for event in sent] == [
        (
            "EXEC",
            [
                [
                    *["HSET", "flight:2013-01-09:HA51", "from", "JFK", "to", "HNL", "tail", "N384HA"],
                    *["status", "departed", "delay", 1301],
                ],
                ["PEXPIRE", "flight:2013-01-09:HA51", 3 * DAY_MS],
            ],
            None,
        ),
        ("INCR", ["departed:HA"], "2013-01-09:HA51:count"),
        ("ZADD", ["delays", 1301, "2013-01-09:HA51"], None),
        (
            "EXEC",
            [["LPUSH", "departures:JFK", "2013-01-09:HA51"], ["LTRIM", "departures:JFK", 0, 19]],
            "2013-01-09:HA51:departure",
        ),
        ("SADD", ["aircraft:HA", "N384HA"], None),
    ]
    assert {event.time_ms for event in sent} == {1_357_736_400_000 + 1301 * 60_000}


def test_commands_of_a_cancellation() -> None:
    """A cancelled flight is shown and counted as such at its scheduled time, and departs nowhere."""
    sent = commands(flight(delay_minutes=None, tail=None))

    assert [(event.name, event.args, event.event_id) for event in sent] == [
        (
            "EXEC",
            [
                ["HSET", "flight:2013-01-09:HA51", "from", "JFK", "to", "HNL", "status", "cancelled"],
                ["PEXPIRE", "flight:2013-01-09:HA51", 3 * DAY_MS],
            ],
            None,
        ),
        ("INCR", ["cancelled:HA"], "2013-01-09:HA51:count"),
    ]
    assert {event.time_ms for event in sent} == {1_357_736_400_000}


def test_commands_per_flight(january: list[Flight]) -> None:
    """A flight is about seven commands."""
    sizes = Counter(sum(len(flat(event)) for event in commands(row)) for row in january)

    assert sizes == {7: 26_483, 3: 521}


def test_every_exec_has_one_key(january: list[Flight]) -> None:
    """The commands of an EXEC share their key, so that the stream fits any number of partitions."""
    keys = [len({command[1] for command in flat(event)}) for row in january for event in commands(row)]

    assert set(keys) == {1}


def test_times_never_go_back(january: list[Flight]) -> None:
    """The stream is in the order of time, from the first departure of January to the last one, at 1 February."""
    times = [event.time_ms for event in events(january)]

    assert times == sorted(times)
    assert times[0] == 1_357_035_420_000
    assert times[-1] == 1_359_698_040_000


def test_some_events_are_sent_twice() -> None:
    """The first flight and every hundredth after it are sent twice, the second time right after the first."""
    rows = [flight(f"{number:03}", delay_minutes=number) for number in range(102)]
    twice = [number for number in range(102) for _ in range(2 if number in (0, 100) else 1)]

    assert list(events(rows)) == [event for number in twice for event in commands(rows[number])]


def test_event_ids_fit_the_limit_and_differ(january: list[Flight]) -> None:
    """Idempotency keys are at most 64 bytes, and no two events of the month share one."""
    ids = [event.event_id for row in january for event in commands(row) if event.event_id]

    assert len(ids) == len(set(ids)) == 2 * 26_483 + 521
    assert max(map(len, ids)) <= 64


def test_expected_counters(results: Expected) -> None:
    """The counters of some carriers and their sums are those of the table."""
    assert results.departed["UA"] == 4_605
    assert results.cancelled["UA"] == 32
    assert results.departed["OO"] == 1
    assert "OO" not in results.cancelled
    assert sum(results.departed.values()) == results.delays == 26_483
    assert sum(results.cancelled.values()) == 521


def test_expected_delays(results: Expected) -> None:
    """The worst delays of the month, with two equal ones in descending order of name."""
    assert results.worst == [
        ("2013-01-09:HA51", 1301),
        ("2013-01-10:MQ3695", 1126),
        ("2013-01-01:MQ3944", 853),
        ("2013-01-13:DL269", 599),
        ("2013-01-16:B6517", 502),
        ("2013-01-23:DL2119", 478),
        ("2013-01-10:UA544", 385),
        ("2013-01-02:UA488", 379),
        ("2013-01-01:EV4321", 379),
        ("2013-01-07:B6377", 366),
    ]


def test_expected_aircraft(results: Expected) -> None:
    """Hawaiian flew nine aircraft, United 548."""
    assert len(results.aircraft["HA"]) == 9
    assert len(results.aircraft["UA"]) == 548


def test_expected_departures(results: Expected) -> None:
    """Each airport's list holds its 20 latest departures, the newest first."""
    assert {airport: len(names) for airport, names in results.departures.items()} == {"EWR": 20, "JFK": 20, "LGA": 20}
    assert results.departures["JFK"][:3] == ["2013-01-31:B6608", "2013-01-31:B622", "2013-01-31:B630"]


def test_expected_board(results: Expected) -> None:
    """At the end the board shows the flights of the last three days only."""
    assert len(results.on_board) == 2_718
    assert len(results.on_board) + len(results.off_board) == 27_004
    assert {name[:10] for name in results.on_board} == {"2013-01-29", "2013-01-30", "2013-01-31"}


def test_a_flight_leaves_the_board_at_its_expiry() -> None:
    """A flight is gone at the very millisecond of its expiry, and there one minute before."""
    first, second = flight("a"), flight("b", delay_minutes=1)
    last = flight("c", scheduled_ms=first.scheduled_ms + 3 * DAY_MS)
    result = expected([first, second, last])

    assert result.off_board == ["a"]
    assert result.on_board == ["b", "c"]


def test_departures_are_capped() -> None:
    """Of more departures than are kept, the oldest fall out."""
    rows = [flight(f"{number:02}", delay_minutes=number) for number in range(DEPARTURES_KEPT + 5)]

    assert expected(rows).departures["JFK"] == [f"{number:02}" for number in range(24, 4, -1)]


def test_checks_read_every_result(results: Expected) -> None:
    """Four reads for each of the 16 carriers, one for each airport, and four for the rest."""
    reads = checks(results)

    assert len(reads) == 16 * 4 + 3 + 4
    assert carriers(results)[:3] == ["UA", "B6", "EV"]
    assert reads[0] == (["GET", "departed:UA"], b"4605")
    assert (["GET", "cancelled:OO"], None) in reads
    assert reads[-4] == (["ZCARD", "delays"], 26_483)
    assert reads[-3].command == ["ZREVRANGE", "delays", "0", "9", "WITHSCORES"]
    assert reads[-3].reply[0] == (b"2013-01-09:HA51", 1301.0)
    assert [check.reply for check in reads[-2:]] == [2_718, 0]
