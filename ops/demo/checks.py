"""Reads the state after the demo's events and compares it with the rows of the input."""

from __future__ import annotations

from typing import Any, NamedTuple

from ops.demo.flights import Expected


class Check(NamedTuple):
    """One read and the reply to expect, as a Python value of `values.replies` (bytes, int, None, list, pairs)."""

    command: list[str]
    reply: Any


def checks(expected: Expected) -> list[Check]:
    """Every read of the demo: each key of the final state takes part, the flights' hashes by being there or not."""
    reads = [check for carrier in carriers(expected) for check in _of_carrier(carrier, expected)]
    reads += [
        Check(["LRANGE", f"departures:{airport}", "0", "-1"], _encoded(names))
        for airport, names in sorted(expected.departures.items())
    ]
    worst = [(name.encode(), float(minutes)) for name, minutes in expected.worst]
    reads += [
        Check(["ZCARD", "delays"], expected.delays),
        Check(["ZREVRANGE", "delays", "0", str(len(worst) - 1), "WITHSCORES"], worst),
        Check(["EXISTS", *_flight_keys(expected.on_board)], len(expected.on_board)),
    ]
    if expected.off_board:
        reads.append(Check(["EXISTS", *_flight_keys(expected.off_board)], 0))
    return reads


def carriers(expected: Expected) -> list[str]:
    """All carriers, the one with the most departures first."""
    names = sorted(expected.departed.keys() | expected.cancelled.keys())
    return sorted(names, key=lambda carrier: -expected.departed.get(carrier, 0))


def _of_carrier(carrier: str, expected: Expected) -> list[Check]:
    """The two counters of a carrier (absent at 0), and its set of aircraft: as many as expected, and each of them."""
    aircraft = sorted(expected.aircraft.get(carrier, set()))
    return [
        Check(["GET", f"departed:{carrier}"], _counter(expected.departed.get(carrier))),
        Check(["GET", f"cancelled:{carrier}"], _counter(expected.cancelled.get(carrier))),
        Check(["SCARD", f"aircraft:{carrier}"], len(aircraft)),
        Check(["SMISMEMBER", f"aircraft:{carrier}", *aircraft], [1] * len(aircraft)),
    ]


def _counter(count: int | None) -> bytes | None:
    return None if count is None else b"%d" % count


def _encoded(names: list[str]) -> list[bytes]:
    return [name.encode() for name in names]


def _flight_keys(names: list[str]) -> list[str]:
    return [f"flight:{name}" for name in names]
