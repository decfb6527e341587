"""Accounts for every command that a client sends: calls, seconds, errors, keyspace hits, slow commands.

Whoever runs a command, or refuses it, says here how that ended, once. What is kept of it stands in the command's plan
(`Plan.calls`, …), in `Stats`, in `SlowLog` and in `Latency`.
"""

from __future__ import annotations

from typing import Final

from engine.apply.script_calls import ScriptCalls
from engine.errors import CommandError
from engine.values.replies import Reply
from resp.catalog.plans import CommandKind, Plan, Plans
from resp.settings.config import Config
from resp.statistics.latency import Latency
from resp.statistics.slowlog import IN_SCRIPT, NamedClient, SlowLog
from resp.statistics.stats import Stats
from slotlog.clock import now_ms

_READ: Final = CommandKind.READ
RUN_SECONDS: Final = 0.001
"""Reads that are told of together take less than this, unless the process stands still."""


class Accounting:
    """The accounts of one server's commands.

    Args:
        plans: of the commands that scripts call.
        config: has the limits above which a command is slow.
        stats: counts errors and keyspace hits.
        slowlog, latency: take slow commands.
    """

    __slots__ = ("_latency", "_plans", "_slow_seconds", "_slowlog", "_stats", "_tracks_latencies")

    def __init__(self, plans: Plans, config: Config, stats: Stats, slowlog: SlowLog, latency: Latency) -> None:
        self._plans = plans
        self._stats, self._slowlog, self._latency = stats, slowlog, latency
        self._slow_seconds = 0.0  # what takes longer is of interest to one of the two
        self._tracks_latencies = True
        config.follow("slowlog-log-slower-than", self._log_slower_than)
        config.follow("slowlog-max-len", slowlog.keep)
        config.follow("latency-monitor-threshold", self._sample_from)
        config.follow("latency-tracking", self._track_latencies)

    def ended(self, client: NamedClient, plan: Plan, command: list[bytes], reply: Reply, seconds: float) -> None:
        """A command has run. The hot path: one call for each command, however it was run.

        Args:
            client: whose it was.
            plan: the command's.
            command: as the client has sent it.
            reply: how it ended; a CommandError: it failed. What the server ran without one (CLIENT REPLY OFF) has None.
            seconds: how long it ran, without what it waited.
        """
        counted = plan.counted
        counted.calls += 1
        counted.seconds += seconds
        if self._tracks_latencies:
            # `int(…)` looks its argument's type up: 500 more of the 32,000 instructions that a GET takes.
            counted.calls_by_digits[(seconds * 1e6).__trunc__().bit_length()] += 1
        if type(reply) is CommandError:  # what is a kind of it is raised where a command is refused, and never here
            counted.failed += 1
            if not reply.is_counted:
                self._stats.count_error(reply.message)
        elif plan.kind is _READ:
            if reply:
                self._stats.keyspace_hits += 1
            else:
                self._stats.count_empty(reply)
        if seconds > self._slow_seconds:
            self._note_slow(client, plan, command, seconds)

    @property
    def takes_runs(self) -> bool:
        """Whether reads from memory may be told of together: one of a few microseconds is of no interest."""
        return self._slow_seconds >= RUN_SECONDS

    def ended_reads(
        self, client: NamedClient, plan: Plan, command: list[bytes], count: int, hits: int, seconds: float
    ) -> None:
        """So many reads of a plan have run, one behind the other, without an error: `ended` of each.

        Args:
            client: whose they were.
            plan: theirs.
            command: the last of them; it stands for all if the process stood still meanwhile.
            count: how many ran.
            hits: how many of them found their key.
            seconds: how long all of them ran.
        """
        self._count(plan, count, seconds / count)
        self._stats.keyspace_hits += hits
        self._stats.keyspace_misses += count - hits
        if seconds > self._slow_seconds:
            self._note_slow(client, plan, command, seconds)

    def takes_writes(self, seconds: float) -> bool:
        """Whether writes that ran so long each may be told of together: none of them is of interest."""
        return seconds <= self._slow_seconds

    def ended_writes(self, plan: Plan, count: int, seconds: float) -> None:
        """Many writes of a plan have run without an error, each for so long, and may be told of together."""
        self._count(plan, count, seconds)

    def ended_for_another(self, plan: Plan) -> None:
        """A command has run that answers by the reply of another (SLOTLOG ONCE), whose time is all there is."""
        plan.calls += 1

    def refused(self, plan: Plan | None, error: CommandError) -> None:
        """A command was not run: it is unknown (then it has no plan), or may not run now."""
        if plan is not None:
            plan.counted.rejected += 1
        self._stats.count_error(error.message)

    def called_by_scripts(self, calls: ScriptCalls) -> None:
        """Commands have run inside scripts, or were refused there. Their time is part of the scripts' own."""
        for name, count in calls.calls.items():
            self._plans.by_name[name].calls += count
        for name, count in calls.failed.items():
            self._plans.by_name[name].failed += count
        for name, count in calls.rejected.items():
            plan = self._plans.by_name.get(name)  # none of what there is not
            if plan is not None and plan.kind is not CommandKind.CONTAINER:
                plan.rejected += count
        self._stats.count_denials(calls.denied)
        for code, count in calls.errors.items():
            self._stats.count_error(code, count)

    def ended_in_script(self, words: list[bytes], seconds: float) -> None:
        """A command of a script has run for so long. `called_by_scripts` counts it, when its script is over."""
        if seconds > self._slow_seconds:
            self._slowlog.add(IN_SCRIPT, words, int(seconds * 1e6), now_ms() // 1000)
            self._latency.add("command", int(seconds * 1000))

    # ------------------------------------------------------------------ inside

    def _count(self, plan: Plan, count: int, seconds: float) -> None:
        counted = plan.counted
        counted.calls += count
        counted.seconds += count * seconds
        if self._tracks_latencies:
            counted.calls_by_digits[(seconds * 1e6).__trunc__().bit_length()] += count

    def _note_slow(self, client: NamedClient, plan: Plan, command: list[bytes], seconds: float) -> None:
        if plan.server is None or "skip_slowlog" not in plan.server.flags:
            self._slowlog.add(client, command, int(seconds * 1e6), now_ms() // 1000)
        self._latency.add("command", int(seconds * 1000))

    def _log_slower_than(self, microseconds: int) -> None:
        self._slowlog.slower_than_us = microseconds
        self._slow_seconds = min(self._slowlog.slow_seconds, self._latency.slow_seconds)

    def _sample_from(self, milliseconds: int) -> None:
        self._latency.threshold_ms = milliseconds
        self._slow_seconds = min(self._slowlog.slow_seconds, self._latency.slow_seconds)

    def _track_latencies(self, tracks: bool) -> None:
        self._tracks_latencies = tracks
