"""Every command that ends is counted once, with its time, its error and what it found."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import resp.commands  # noqa: F401 - fills the registry
from engine.errors import CommandError
from engine.values.replies import Reply
from ingest.applying.slicing.slices import Slices
from resp.catalog.plans import Plan, Plans
from resp.settings.config import Config
from resp.statistics.accounting import Accounting
from resp.statistics.latency import Latency
from resp.statistics.script_timer import ScriptTimer
from resp.statistics.slowlog import SlowLog
from resp.statistics.stats import Stats


@dataclass
class Somebody:
    """A client."""

    address: bytes = b"127.0.0.1:1"
    name: bytes = b"somebody"


@dataclass
class Server:
    """What a `ScriptTimer` knows of one."""

    slices: Slices
    accounting: Accounting


class Accounts:
    """The accounts of a server that has no clients, and what they are kept in."""

    def __init__(self) -> None:
        self.config = Config()
        self.stats, self.slowlog, self.latency = Stats(), SlowLog(), Latency()
        self.plans = Plans()
        self.accounting = Accounting(self.plans, self.config, self.stats, self.slowlog, self.latency)

    def ended(self, name: bytes, reply: Reply, seconds: float = 0.0) -> Plan:
        """A command has ended so; returns its plan."""
        plan = self.plans.by_name[name]
        self.accounting.ended(Somebody(), plan, [name], reply, seconds)
        return plan


@pytest.mark.parametrize(
    ("name", "reply", "hits", "misses"),
    [
        (b"GET", b"value", 1, 0),
        (b"GET", b"", 1, 0),
        (b"GET", None, 0, 1),
        (b"EXISTS", 0, 0, 1),
        (b"HGETALL", {}, 0, 1),
        (b"GET", CommandError("WRONGTYPE …"), 0, 0),
        (b"SET", None, 0, 0),
        (b"PING", b"PONG", 0, 0),
    ],
)
def test_reads_find_or_miss(name: bytes, reply: Reply, hits: int, misses: int) -> None:
    """A read that did not fail found its key, or missed it, by its reply; what is no read does neither."""
    accounts = Accounts()

    plan = accounts.ended(name, reply)

    assert (1, hits, misses) == (plan.calls, accounts.stats.keyspace_hits, accounts.stats.keyspace_misses)


def test_failures_and_refusals() -> None:
    """A command that fails is a call with an error; one that is refused is an error and no call, known or not."""
    accounts = Accounts()

    plan = accounts.ended(b"SET", CommandError("ERR syntax error"))
    accounts.accounting.refused(plan, CommandError("NOPERM …"))
    accounts.accounting.refused(None, CommandError("ERR unknown command"))

    assert (1, 1, 1) == (plan.calls, plan.failed, plan.rejected)
    assert {"ERR": 2, "NOPERM": 1} == accounts.stats.errors


def test_times_are_kept_while_they_are_tracked() -> None:
    """A call adds its seconds, and stands among those of its length unless `latency-tracking` is off."""
    accounts = Accounts()

    plan = accounts.ended(b"SET", b"OK", 3e-6)
    accounts.config.set_many([(b"latency-tracking", b"no")])
    accounts.ended(b"SET", b"OK", 4e-6)
    accounts.accounting.ended_for_another(plan)

    assert (3, {2: 1}) == (plan.calls, plan.buckets)
    assert pytest.approx(7e-6) == plan.seconds


def test_slow_commands_are_told() -> None:
    """SLOWLOG hears of a slow command with its caller; of one that is not to be shown only LATENCY does."""
    accounts = Accounts()
    accounts.config.set_many([(b"slowlog-log-slower-than", b"1000"), (b"latency-monitor-threshold", b"2")])

    accounts.ended(b"SET", b"OK", 0.0009)
    accounts.ended(b"SET", b"OK", 0.003)
    accounts.ended(b"EXEC", [], 0.004)

    (entry,) = accounts.slowlog.newest(10)
    assert (3000, [b"SET"], b"somebody") == (entry.microseconds, entry.command, entry.client_name)
    assert (2, 7) == (accounts.latency.events["command"].count, accounts.latency.events["command"].sum_ms)


class Away(Slices):
    """Slices in which whoever runs was suspended for 20 seconds."""

    def own_seconds(self, began: float) -> float:
        """Without these."""
        return super().own_seconds(began) - 20


@pytest.mark.parametrize(("slices", "noted"), [(Slices(), [[b"SORT", b"l"]]), (Away(), [])])
def test_a_slow_command_of_a_script(slices: Slices, noted: list[list[bytes]]) -> None:
    """SLOWLOG and LATENCY have it, but not if it was only suspended for long."""
    accounts = Accounts()
    accounts.config.set_many([(b"slowlog-log-slower-than", b"20000000"), (b"latency-monitor-threshold", b"20000")])
    timer = ScriptTimer(Server(slices, accounts.accounting))
    timer.end(timer.begin(), [b"GET", b"k"])
    timer.end(timer.begin() - 30, [b"SORT", b"l"])
    assert noted == [entry.command for entry in accounts.slowlog.newest(9)]
    assert len(noted) == len(accounts.latency.events)
