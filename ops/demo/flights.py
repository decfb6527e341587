"""A month of flights out of New York City: rows, events and expected results.

The rows come from `flights-2013-01.csv.gz` (see `SOURCE.md`). `events` and `expected` both start from the rows and
share no computation, so that the state which the events lead to can be checked against the rows. The keys:

    key                       type         content
    flight:2013-01-09:HA51    hash         what the board shows about the flight; gone 3 days after it was put up
    departed:HA cancelled:HA  string       counters per carrier
    delays                    sorted set   flight -> minutes late (negative: early)
    departures:JFK            list         the 20 latest departures of an airport, the newest first
    aircraft:HA               set          tail numbers that a carrier flew with
"""

from __future__ import annotations

import csv
import gzip
import heapq
import io
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

DATA_FILE: Final = Path(__file__).with_name("flights-2013-01.csv.gz")

BOARD_MS: Final = 3 * 24 * 3600 * 1000  # how long a flight stays on the board
DEPARTURES_KEPT: Final = 20  # latest departures kept for each airport
WORST_DELAYS: Final = 10  # rows of the delay table
RESENT_EVERY: Final = 100  # one flight in so many is sent twice, as a producer does that has lost an acknowledgement

_MINUTE_MS: Final = 60_000
_MISSING: Final = "NA"


class Flight(NamedTuple):
    """One row of the table, reduced to what a departure board knows."""

    name: str
    """Date of departure, carrier and flight number, `2013-01-09:HA51`; unique in the table."""
    carrier: str
    origin: str
    destination: str
    tail: str | None
    scheduled_ms: int
    delay_minutes: int | None
    """None: cancelled, it never left."""

    @property
    def time_ms(self) -> int:
        """When the board learns about it: the moment of departure; for a cancelled flight the scheduled one."""
        return self.scheduled_ms + (self.delay_minutes or 0) * _MINUTE_MS


class FlightEvent(NamedTuple):
    """One event for the log."""

    time_ms: int
    name: str
    args: list[Any]
    """The command's arguments, str or int; for EXEC its commands, each `[name, argument…]`."""
    event_id: str | None


class Expected(NamedTuple):
    """The results, computed from the rows alone. A carrier without departures, or cancellations, has no entry."""

    departed: dict[str, int]
    cancelled: dict[str, int]
    aircraft: dict[str, set[str]]
    delays: int
    """Members of the sorted set of delays."""
    worst: list[tuple[str, int]]
    """Flight and minutes late, the latest first; equal delays in descending order of name, as ZREVRANGE has them."""
    departures: dict[str, list[str]]
    """By airport, the newest first."""
    on_board: list[str]
    """Flights whose hash has not expired when the last event has been applied."""
    off_board: list[str]
    """Flights whose hash has expired by then."""


def read_flights() -> Iterator[Flight]:
    """The 27,004 flights of January 2013, in the table's order: by day, then by time of departure."""
    with io.TextIOWrapper(gzip.open(DATA_FILE), encoding="ascii") as lines:
        for row in csv.DictReader(lines):
            yield _flight(row)


def commands(flight: Flight) -> list[FlightEvent]:
    """What the board sends about `flight`, in this order: 7 commands in 5 events, or 3 in 2 when it was cancelled.

    Events that would count twice if they were applied twice (INCR, LPUSH) carry an idempotency key.
    """
    key = f"flight:{flight.name}"
    fields: list[Any] = ["HSET", key, "from", flight.origin, "to", flight.destination]
    if flight.tail is not None:
        fields += ["tail", flight.tail]
    if flight.delay_minutes is None:
        fields += ["status", "cancelled"]
        return [
            _event(flight, "EXEC", [fields, ["PEXPIRE", key, BOARD_MS]]),
            _event(flight, "INCR", [f"cancelled:{flight.carrier}"], "count"),
        ]
    fields += ["status", "departed", "delay", flight.delay_minutes]
    departures = f"departures:{flight.origin}"
    return [
        _event(flight, "EXEC", [fields, ["PEXPIRE", key, BOARD_MS]]),
        _event(flight, "INCR", [f"departed:{flight.carrier}"], "count"),
        _event(flight, "ZADD", ["delays", flight.delay_minutes, flight.name]),
        _event(
            flight,
            "EXEC",
            [["LPUSH", departures, flight.name], ["LTRIM", departures, 0, DEPARTURES_KEPT - 1]],
            "departure",
        ),
        _event(flight, "SADD", [f"aircraft:{flight.carrier}", flight.tail]),
    ]


def events(flights: Iterable[Flight]) -> Iterator[FlightEvent]:
    """Everything that the board sends, in the order in which it happened; the times never go back.

    All events of every 100th flight are sent a second time: its counters stay right because of the idempotency keys,
    and its other commands by what they are (the second HSET, ZADD or SADD changes nothing).
    """
    for position, flight in enumerate(sorted(flights, key=_board_order)):
        sent = commands(flight)
        yield from sent
        if position % RESENT_EVERY == 0:
            yield from sent


def expected(flights: Iterable[Flight]) -> Expected:
    """The results that the state must show after all events of `flights`, without going through any event."""
    rows = sorted(flights, key=_board_order)
    flown = [(flight, flight.delay_minutes) for flight in rows if flight.delay_minutes is not None]
    aircraft: defaultdict[str, set[str]] = defaultdict(set)
    departures: defaultdict[str, list[str]] = defaultdict(list)
    for flight, _ in flown:
        departures[flight.origin].append(flight.name)
        if flight.tail is not None:
            aircraft[flight.carrier].add(flight.tail)
    end_ms = rows[-1].time_ms
    return Expected(
        departed=dict(Counter(flight.carrier for flight, _ in flown)),
        cancelled=dict(Counter(flight.carrier for flight in rows if flight.delay_minutes is None)),
        aircraft=dict(aircraft),
        delays=len(flown),
        worst=heapq.nlargest(WORST_DELAYS, ((f.name, delay) for f, delay in flown), key=lambda row: (row[1], row[0])),
        departures={airport: names[: -DEPARTURES_KEPT - 1 : -1] for airport, names in departures.items()},
        on_board=[flight.name for flight in rows if flight.time_ms + BOARD_MS > end_ms],
        off_board=[flight.name for flight in rows if flight.time_ms + BOARD_MS <= end_ms],
    )


def _flight(row: dict[str, str]) -> Flight:
    """The flight of one CSV row. `time_hour` is the hour of the scheduled departure in UTC."""
    hour = datetime.fromisoformat(row["time_hour"])
    date = f"{row['year']}-{row['month']:0>2}-{row['day']:0>2}"
    return Flight(
        name=f"{date}:{row['carrier']}{row['flight']}",
        carrier=row["carrier"],
        origin=row["origin"],
        destination=row["dest"],
        tail=None if row["tailnum"] == _MISSING else row["tailnum"],
        scheduled_ms=int(hour.timestamp()) * 1000 + int(row["minute"]) * _MINUTE_MS,
        delay_minutes=None if row["dep_delay"] == _MISSING else int(row["dep_delay"]),
    )


def _board_order(flight: Flight) -> tuple[int, str]:
    """Sorts flights by the moment when the board learns about them; within one minute by name."""
    return flight.time_ms, flight.name


def _event(flight: Flight, name: str, args: list[Any], purpose: str | None = None) -> FlightEvent:
    """An event at the flight's moment; `purpose` makes it an idempotent one, once for each flight."""
    return FlightEvent(flight.time_ms, name, args, None if purpose is None else f"{flight.name}:{purpose}")
