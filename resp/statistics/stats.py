"""Statistics for INFO: totals since the start or `CONFIG RESETSTAT`, and recent rates.

The dispatcher and the connections add to the attributes; nothing here is called for each command.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Final

from engine.apply.records import Applied
from engine.commands.registry import SPECS
from engine.values.replies import Reply
from ingest.reporting.observer import Cleaned
from resp.statistics.census import Census
from resp.statistics.loop_use import LoopUse
from slotlog.distribution import APPEND_SECONDS, REQUEST_SECONDS, Distribution

_SAMPLES: Final = 16
SAMPLE_SECONDS: Final = 0.1
"""How often `Stats.sample` wants to be called. Redis samples as often, and shows the mean of as many samples."""

_ERROR_CODES_MAX: Final = 128
_TOO_MANY_ERROR_CODES: Final = "ERRORSTATS_OVERFLOW"


_CHANGING: Final = frozenset(name for name, spec in SPECS.items() if spec.changes_data)


class Rate:
    """The recent growth of a total, from its last samples.

    Attributes:
        total: as of the last sample.
    """

    def __init__(self) -> None:
        self.total = 0
        self._rates: deque[float] = deque(maxlen=_SAMPLES)

    def sample(self, total: int, steps: float) -> None:
        """Note the total, so many seconds, or turns of the loop, after the sample before."""
        self._rates.append(max(0, total - self.total) / steps)
        self.total = total

    @property
    def mean(self) -> float:
        """The mean of the samples kept, 0 before the first one."""
        return sum(self._rates) / len(self._rates) if self._rates else 0.0


class Stats:
    """The server's counters.

    Attributes:
        connections_received, rejected_connections: accepted ones, and those turned away at `maxclients`.
        net_input_bytes, net_output_bytes: from and to clients.
        reads_processed, writes_processed: how often there was something from, or for, a client.
        keyspace_hits, keyspace_misses: reads that found their key, or did not, as far as their replies tell.
        expired_keys, expired_fields: those whose records went because their time was over. Where a write replaces a key
            that is due, it counts only while somebody looks at what writes do (notifications, blocked clients).
        expiry_seconds: how long slices of cleaning took in which such keys or fields went.
        denied_auth, denied_command, denied_key, denied_channel, denied_database: what the ACL refused.
        evicted_clients: those disconnected because all of them together held more than `maxmemory-clients`.
        query_limit_disconnections, output_limit_disconnections: clients cut off at a buffer limit.
        errors: error code, such as `ERR` -> replies with it.
        error_replies: all of them.
        changes_since_save: writes of batches that changed something, since the start or the last SAVE or BGSAVE.
        lag_events: partition -> how many offsets it is behind the log, as its consumer said last.
        loop_use: of the event loop; None where it does not tell.
        census: counts the keys that have a time to live.
        request_seconds: from a client's bytes to the end of what they asked for, where nothing of it waits.
        write_seconds: from a client's bytes to the replies that waited, as those of writes do.
    """

    __slots__ = (
        "_input",
        "_loop_turns",
        "_operations",
        "_output",
        "_sampled_at",
        "_turn_us",
        "census",
        "changes_since_save",
        "connections_received",
        "denied_auth",
        "denied_channel",
        "denied_command",
        "denied_database",
        "denied_key",
        "error_replies",
        "errors",
        "evicted_clients",
        "expired_fields",
        "expired_keys",
        "expiry_seconds",
        "keyspace_hits",
        "keyspace_misses",
        "lag_events",
        "loop_use",
        "net_input_bytes",
        "net_output_bytes",
        "output_limit_disconnections",
        "query_limit_disconnections",
        "reads_processed",
        "rejected_connections",
        "request_seconds",
        "write_seconds",
        "writes_processed",
    )

    def __init__(self) -> None:
        self.changes_since_save = 0
        self.loop_use: LoopUse | None = None
        self.lag_events: dict[int, int] = {}
        self.census = Census()
        self.request_seconds = Distribution(REQUEST_SECONDS)
        self.write_seconds = Distribution(APPEND_SECONDS)
        self.reset()

    def start(self) -> None:
        """The event loop runs: note from now on what it does."""
        self.loop_use = LoopUse.of(asyncio.get_running_loop())

    def reset(self) -> None:
        """Begin anew, as `CONFIG RESETSTAT` does."""
        self.connections_received = 0
        self.rejected_connections = 0
        self.net_input_bytes = 0
        self.net_output_bytes = 0
        self.reads_processed = 0
        self.writes_processed = 0
        self.keyspace_hits = 0
        self.keyspace_misses = 0
        self.expired_fields = 0
        self.expired_keys = 0
        self.expiry_seconds = 0.0
        self.denied_auth = 0
        self.denied_command = 0
        self.denied_key = 0
        self.denied_channel = 0
        self.denied_database = 0
        self.evicted_clients = 0
        self.query_limit_disconnections = 0
        self.output_limit_disconnections = 0
        self.error_replies = 0
        self.errors: dict[str, int] = {}
        self._operations = Rate()
        self._input = Rate()
        self._output = Rate()
        self._loop_turns = Rate()
        self._turn_us = Rate()
        if self.loop_use is not None:
            self.loop_use.reset()
        self._sampled_at: float | None = None

    def count_changes(self, applied: Applied) -> None:
        """Count what a batch that changed something has done: its writes, but for those that were refused."""
        writes = -applied.rejected
        for name, count in applied.commands.items():
            if name in _CHANGING:
                writes += count
        if writes > 0:
            self.changes_since_save += writes

    def count_cleaned(self, cleaned: Cleaned) -> None:
        """Count what has gone because its time was over."""
        self.expired_keys += cleaned.keys
        self.expired_fields += cleaned.fields
        if cleaned.keys or cleaned.fields:
            self.expiry_seconds += cleaned.seconds

    def count_empty(self, reply: Reply) -> None:
        """Count a read whose reply is false: nil, 0 and an empty collection mean a key that is not there.

        A key that holds an empty string, or a member with a score of 0, is there.
        """
        if isinstance(reply, (bytes, float)):
            self.keyspace_hits += 1
        else:
            self.keyspace_misses += 1

    def count_denials(self, denied: Mapping[str, int]) -> None:
        """Count what rights have refused to scripts: how often a command, key, channel or database."""
        for reason, count in denied.items():
            setattr(self, f"denied_{reason}", getattr(self, f"denied_{reason}") + count)

    def count_error(self, message: str, count: int = 1) -> None:
        """Count so many errors by their code, the first word of `message`. Codes are bounded, as in Redis."""
        self.error_replies += count
        code = message.partition(" ")[0]
        if code not in self.errors and len(self.errors) >= _ERROR_CODES_MAX:
            code = _TOO_MANY_ERROR_CODES
        self.errors[code] = self.errors.get(code, 0) + count

    def sample(self, now_s: float, commands: int) -> None:
        """Note how far the totals have come: commands that ran, bytes. To be called every `SAMPLE_SECONDS`.

        Args:
            now_s: monotonic.
            commands: how many ran so far.
        """
        before, self._sampled_at = self._sampled_at, now_s
        if before is None or now_s <= before:
            return
        seconds = now_s - before
        self._operations.sample(commands, seconds)
        self._input.sample(self.net_input_bytes, seconds)
        self._output.sample(self.net_output_bytes, seconds)
        if (use := self.loop_use) is not None:
            before_turns, turns = self._loop_turns.total, use.turns
            self._loop_turns.sample(turns, seconds)
            self._turn_us.sample(use.busy_us, max(1, turns - before_turns))

    @property
    def operations_per_second(self) -> int:
        """Commands a second of late."""
        return int(self._operations.mean)

    @property
    def input_kib_per_second(self) -> float:
        """KiB a second from clients of late."""
        return self._input.mean / 1024

    @property
    def output_kib_per_second(self) -> float:
        """KiB a second to clients of late."""
        return self._output.mean / 1024

    @property
    def loop_turns_per_second(self) -> int:
        """Turns of the event loop in a second of late."""
        return int(self._loop_turns.mean)

    @property
    def turn_us(self) -> int:
        """How many microseconds a turn of the event loop took of late, without what it waited."""
        return int(self._turn_us.mean)
