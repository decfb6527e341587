"""LATENCY: the oracle's replies, its graph and the bounds of its histograms."""

from __future__ import annotations

from itertools import pairwise

import pytest

from resp.statistics import latency
from resp.statistics.latency import Latency, Series, graph, histogram
from tests.real.oracle import Connection, Oracle
from tests.resp.plays import LATENCY
from tests.resp.scripts import OracleClients, OurClients, play

NOW_S = 1_795_260_467
SAMPLES_MS = (30, 5, 12, 60, 20, 44)
GRAPH = (
    "command - high 60 ms, low 5 ms (all time high 60 ms)\n"
    "--------------------------------------------------------------------------------\n"
    "   #  \n"
    "   | #\n"
    "#  |_|\n"
    "|_o|||\n"
    "      \n"
    "654321\n"
    "ssssss\n"
)
"""What valkey-server 9.1 shows of these samples, one a second, the last one a second ago."""


@pytest.mark.parametrize("resp3", [False, True])
def test_same_bytes_as_the_oracle(oracle_server: Oracle, resp3: bool) -> None:
    """With nothing to report, every reply and error text is the oracle's."""
    theirs = OracleClients(oracle_server)

    expected = play(theirs, LATENCY, resp3=resp3)
    theirs.close()

    assert expected == play(OurClients(), LATENCY, resp3=resp3)


@pytest.fixture
def sampled(monkeypatch: pytest.MonkeyPatch) -> OurClients:
    """A server with samples of one kind of event."""
    clients = OurClients()
    clients.say("a", [b"CONFIG", b"SET", b"latency-monitor-threshold", b"5"])
    for ago_s, ms in zip(range(6, 0, -1), SAMPLES_MS, strict=True):
        monkeypatch.setattr(latency, "now_ms", lambda ago_s=ago_s: (NOW_S - ago_s) * 1000)
        clients.server.latency.add("command", ms)
        clients.server.latency.add("command", 4)
    monkeypatch.setattr(latency, "now_ms", lambda: NOW_S * 1000)
    return clients


def test_latest(sampled: OurClients) -> None:
    """LATEST tells the newest sample, the longest, the sum and how many; what is below the threshold is no sample."""
    expected = b"*1\r\n*6\r\n$7\r\ncommand\r\n:%d\r\n:44\r\n:60\r\n:171\r\n:6\r\n" % (NOW_S - 1)

    assert {"a": expected} == sampled.say("a", [b"LATENCY", b"LATEST"])


def test_history(sampled: OurClients) -> None:
    """HISTORY tells the samples, oldest first."""
    pairs = zip(range(NOW_S - 6, NOW_S), SAMPLES_MS, strict=True)
    expected = b"*6\r\n" + b"".join(b"*2\r\n:%d\r\n:%d\r\n" % pair for pair in pairs)

    assert {"a": expected} == sampled.say("a", [b"LATENCY", b"HISTORY", b"command"])


def test_graph(sampled: OurClients) -> None:
    """GRAPH draws what the oracle draws."""
    assert graph("command", sampled.server.latency.events["command"]) == GRAPH
    assert {"a": b"$%d\r\n%b\r\n" % (len(GRAPH), GRAPH.encode())} == sampled.say(
        "a", [b"LATENCY", b"GRAPH", b"command"]
    )


def test_graph_of_equal_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples that do not differ are a flat line, and ages are shown in their largest unit."""
    monkeypatch.setattr(latency, "now_ms", lambda: NOW_S * 1000)
    series = Series()
    for ago_s in (100_000, 7_300, 61):
        series.add(NOW_S - ago_s, 50)

    assert graph("x", series).splitlines()[2:] == ["   ", "   ", "   ", "___", "   ", "121", "dhm"]


def test_doctor(sampled: OurClients) -> None:
    """DOCTOR says so when nothing is watched, when nothing was slow, and what was."""
    quiet = Latency()

    assert "is not watched" in quiet.report()
    quiet.threshold_ms = 5
    assert "Nothing has taken 5 ms" in quiet.report()
    assert "1. command: 6 samples, 28 ms on average, 60 ms at most." in sampled.server.latency.report()


def test_reset(sampled: OurClients) -> None:
    """RESET forgets the kinds that are named and says how many had any; the case of the name counts."""
    assert {"a": b":0\r\n"} == sampled.say("a", [b"LATENCY", b"RESET", b"COMMAND", b"x"])
    assert {"a": b":1\r\n"} == sampled.say("a", [b"LATENCY", b"RESET", b"x", b"command"])
    assert {"a": b"*0\r\n"} == sampled.say("a", [b"LATENCY", b"LATEST"])


def test_one_sample_a_second() -> None:
    """Samples of one second are the longest of them; sum and count are those of all; 160 seconds are kept."""
    series = Series()
    for second in range(200):
        for ms in (1, 3, 2):
            series.add(second, ms)

    assert [(second, 3) for second in range(40, 200)] == list(series.samples)
    assert (3, 1200, 600) == (series.max_ms, series.sum_ms, series.count)


def test_off_by_default() -> None:
    """Without a threshold nothing is a sample."""
    quiet = Latency()
    quiet.add("command", 10_000)

    assert {} == quiet.events


@pytest.mark.parametrize(
    ("slower_than_us", "threshold_ms", "slow", "samples"),
    [(b"10000", b"5", 0, 1), (b"-1", b"5", 0, 1), (b"10000", b"0", 0, 0), (b"5000", b"7", 1, 0), (b"5000", b"5", 1, 1)],
)
def test_threshold_is_its_own(slower_than_us: bytes, threshold_ms: bytes, slow: int, samples: int) -> None:
    """Of a command of 6 ms LATENCY and SLOWLOG judge each by its own threshold."""
    clients = OurClients()
    clients.say("a", [b"ECHO", b"x"])
    clients.say("a", [b"CONFIG", b"SET", b"slowlog-log-slower-than", slower_than_us])
    clients.say("a", [b"CONFIG", b"SET", b"latency-monitor-threshold", threshold_ms])
    server = clients.server
    (session,) = server.sessions.values()
    server.slowlog.clear()
    server.latency.reset([])

    server.accounting.ended(session, server.plans.by_name[b"ECHO"], [b"ECHO", b"x"], b"x", 0.006)

    assert (slow, samples) == (len(server.slowlog), len(server.latency.events))


def test_bounds_of_histograms(oracle: Connection) -> None:
    """Every bound that the oracle shows for its commands is one of ours, and ours grow by powers of two."""
    for _ in range(50):
        oracle.call("COMMAND")
        oracle.call("PING")
        oracle.call("DEBUG", "SLEEP", "0.001")
    ours = [bound for bound, _ in histogram(dict.fromkeys(range(21), 1))]

    commands = oracle.call("LATENCY", "HISTOGRAM")
    theirs = {bound for values in commands[1::2] for bound in values[3][::2]}

    assert theirs
    assert theirs == theirs & set(ours)
    assert all(2 * low <= high <= 2 * low + 2 for low, high in pairwise(ours))


def test_histogram_counts_up() -> None:
    """Calls are counted up to each bound at which some were added."""
    assert [(1, 2), (4, 5), (33, 6)] == histogram({5: 1, 0: 2, 2: 3})


@pytest.mark.parametrize("resp3", [False, True])
def test_histogram_reply(resp3: bool) -> None:
    """A command, or all subcommands of a container, with its calls; unknown and unused names are left out."""
    clients = OurClients()
    plans = clients.server.plans.by_name
    plans[b"ECHO"].calls_by_digits[0] = 2
    plans[b"CLIENT|ID"].calls_by_digits[1] = 1
    if resp3:
        clients.say("a", [b"HELLO", b"3"])
    one, two, many = (b"%1", b"%2", b"%2") if resp3 else (b"*2", b"*4", b"*4")
    words = (two, b"$5", b"calls", b":2", b"$14", b"histogram_usec", one, b":1", b":2")
    more = (two, b"$5", b"calls", b":1", b"$14", b"histogram_usec", one, b":2", b":1")
    expected = (many, b"$4", b"echo", *words, b"$9", b"client|id", *more, b"")

    got = clients.say("a", [b"LATENCY", b"HISTOGRAM", b"echo", b"nosuch", b"ping", b"Client"])

    assert {"a": b"\r\n".join(expected)} == got
