"""Commands about the process: INFO, TIME, persistence, replication, memory. Source: https://valkey.io/commands/#server.

The log is what persists: an acknowledged write is durable in it, so there is nothing to save and nothing to rewrite.
"""

from __future__ import annotations

import asyncio
import gc
from time import perf_counter
from typing import TYPE_CHECKING, Final, Protocol

from engine.commands.options import read_integer
from engine.errors import SYNTAX, CommandError
from engine.values.numbers import parse_int
from engine.values.replies import OK, Map, Reply, Status, Verbatim
from resp.cluster.standbys import applied_here, hurry, standbys_at, standbys_of, standbys_planned
from resp.commands.handlers import Client, server_command
from resp.reports.info import REDIS_VERSION, info_text
from resp.reports.sentinel import sentinel_info
from resp.resources.memory import memory_use
from resp.statistics.partitions import applied_offsets, key_counts
from resp.wire.server_replies import NO_REPLY
from slotlog.clock import now_ms, now_us

if TYPE_CHECKING:
    from resp.clients.session import Session
    from resp.clients.shared import Shared
    from resp.host import Host
    from resp.resources.heap import Heap
    from resp.statistics.stats import Stats
    from resp.writes.write_pipeline import WritePipeline

_ADMIN: Final = ("admin", "slow", "dangerous")
_SAVE_FLAGS: Final = ("admin", "noscript", "no_async_loading")
_LOOK_SECONDS: Final = 0.02
_SHUTDOWN_WORDS: Final = frozenset({b"NOSAVE", b"SAVE", b"NOW", b"FORCE", b"SAFE", b"FAILOVER", b"ABORT"})


class Process(Protocol):
    """The part of a server that these commands read and change."""

    host: Host
    heap: Heap
    stats: Stats
    pipelines: dict[int, WritePipeline]


# ---------------------------------------------------------------------- INFO, TIME


@server_command(
    "INFO [section ...]",
    group="server",
    since="1.0.0",
    complexity="O(sections)",
    flags=("loading", "stale"),
    categories=("slow", "dangerous"),
    tips=("request_policy:all_shards", "response_policy:special"),
)
def info(client: Session, args: list[bytes]) -> Reply:
    """Return facts and statistics: the named sections, `all` of them, or the `default` ones."""
    if client.at_sentinel:
        return Verbatim(sentinel_info(client.server).encode())
    return Verbatim(info_text(client.server, args, at_replica=client.at_replica).encode())


@server_command(
    "TIME", group="server", since="2.6.0", flags=("loading", "stale", "fast"), categories=("fast",), immediate=True
)
def time_(client: object, args: list[bytes]) -> Reply:
    """Return the wall clock: Unix time in seconds, and the microseconds of the current one."""
    seconds, microseconds = divmod(now_us(), 1_000_000)
    return [b"%d" % seconds, b"%d" % microseconds]


@server_command(
    "LOLWUT [VERSION version] [arg ...]",
    group="server",
    since="5.0.0",
    flags=("readonly", "fast"),
    categories=("read", "fast"),
    immediate=True,
)
def lolwut(client: Client[Process], args: list[bytes]) -> Reply:
    """Draw a slot and a log, and show the versions of Redis and of slotlog."""
    if len(args) > 1 and args[0].upper() == b"VERSION":
        read_integer(args[1])
    drawing = "  ___________\n (_|_|_|_|_|_)  every ring is an event\n"
    return Verbatim(f"{drawing}\nRedis ver. {REDIS_VERSION}, slotlog ver. {client.server.host.version}\n".encode())


# ---------------------------------------------------------------------- persistence


@server_command(
    "LASTSAVE",
    group="server",
    since="1.0.0",
    flags=("loading", "stale", "fast"),
    categories=("admin", "fast", "dangerous"),
)
def lastsave(client: object, args: list[bytes]) -> Reply:
    """Return the current Unix time in seconds: every acknowledged write is in the log."""
    return now_ms() // 1000


@server_command("SAVE", group="server", since="1.0.0", flags=(*_SAVE_FLAGS, "no_multi"), categories=_ADMIN)
def save(client: Client[Process], args: list[bytes]) -> Reply:
    """Reset the count of changes since the last save: every acknowledged write is in the log."""
    client.server.stats.changes_since_save = 0
    return OK


@server_command("BGSAVE [SCHEDULE|CANCEL]", group="server", since="1.0.0", flags=_SAVE_FLAGS, categories=_ADMIN)
def bgsave(client: Client[Process], args: list[bytes]) -> Reply:
    """Reset the count of changes since the last save: every acknowledged write is in the log."""
    word = args[0].upper() if len(args) == 1 else b""
    if word == b"CANCEL":
        raise CommandError("ERR Background save is currently not in progress or scheduled")
    if args and word != b"SCHEDULE":
        raise CommandError(SYNTAX)
    client.server.stats.changes_since_save = 0
    return Status(b"Background saving started")


@server_command("BGREWRITEAOF", group="server", since="1.0.0", flags=_SAVE_FLAGS, categories=_ADMIN)
def bgrewriteaof(client: object, args: list[bytes]) -> Reply:
    """Do nothing: the log is never rewritten."""
    return Status(b"Background append only file rewriting started")


@server_command(
    "SHUTDOWN [NOSAVE|SAVE] [NOW] [FORCE] [SAFE] [FAILOVER] [ABORT]",
    group="server",
    since="1.0.0",
    flags=("admin", "noscript", "loading", "stale", "no_multi", "allow_busy"),
    categories=_ADMIN,
)
def shutdown(client: Client[Process], args: list[bytes]) -> Reply:
    """Stop the process cleanly, as SIGTERM does. The options make no difference; none of them loses a write."""
    words = [arg.upper() for arg in args]
    if not _SHUTDOWN_WORDS.issuperset(words) or {b"SAVE", b"NOSAVE"}.issubset(words):
        raise CommandError(SYNTAX)
    if b"ABORT" in words:
        raise CommandError("ERR No shutdown in progress." if len(words) == 1 else SYNTAX)
    client.server.host.stop()
    return NO_REPLY


# ---------------------------------------------------------------------- replication


@server_command(
    "ROLE",
    group="server",
    since="2.8.12",
    flags=("noscript", "loading", "stale", "fast"),
    categories=("admin", "fast", "dangerous"),
)
def role(client: Session, args: list[bytes]) -> Reply:
    """Return `master` with its replicas, or `slave` with its master. The offset is that of all partitions together."""
    server = client.server
    if client.at_sentinel:
        return [b"sentinel", [] if server.sentinel.master is None else [server.sentinel.name.encode()]]
    if client.at_replica:
        cluster = server.cluster
        mine = [each for each in cluster.replicas if each.worker is cluster.me]
        host, port = mine[0].master.address if mine else ("", 0)
        is_up = bool(mine) and all(each.is_ready for each in server.replicas.values())
        state = b"connected" if is_up else b"sync" if mine else b"connect"
        return [b"slave", host.encode(), port, state, applied_offsets(server.replicas)]
    offset = applied_offsets(server.pipelines)
    standbys = [(*each.replica.address, offset - each.lag_offsets) for each in standbys_of(server)]
    return [b"master", offset, [[host.encode(), b"%d" % port, b"%d" % at] for host, port, at in standbys]]


@server_command(
    "WAIT numreplicas timeout",
    group="generic",
    since="3.0.0",
    flags=("blocking",),
    categories=("slow", "blocking", "connection"),
    tips=("request_policy:all_shards", "response_policy:agg_min"),
)
async def wait(client: Session, args: list[bytes]) -> Reply:
    """Return how many standbys have all that this worker has applied by now; wait for as many as asked.

    A timeout of 0 means until as many have it as there are: it does not wait for standbys that may never come. Inside
    EXEC it does not wait at all.
    """
    replicas = read_integer(args[0])
    timeout_ms = _timeout_ms(args[1])
    return await _standbys(client, replicas, timeout_ms)


@server_command(
    "WAITAOF numlocal numreplicas timeout",
    group="generic",
    since="7.2.0",
    flags=("blocking",),
    categories=("slow", "blocking", "connection"),
    tips=("request_policy:all_shards", "response_policy:agg_min"),
)
async def waitaof(client: Session, args: list[bytes]) -> Reply:
    """Return where the connection's writes are: in 1 log, which is durable, and in so many standbys. See WAIT."""
    local = read_integer(args[0])
    if not 0 <= local <= 1:
        raise CommandError("ERR value is out of range, value must between 0 and 1")
    replicas = parse_int(args[1])
    if replicas is None or replicas < 0:
        raise CommandError("ERR value is out of range, must be positive")
    timeout_ms = _timeout_ms(args[2])
    return [1, await _standbys(client, replicas, timeout_ms)]


# ---------------------------------------------------------------------- memory


@server_command("MEMORY DOCTOR", group="server", since="4.0.0", categories=("slow",), immediate=True, container=True)
def memory_doctor(client: object, args: list[bytes]) -> Reply:
    """Return advice on the process' memory."""
    use = memory_use()
    text = (
        f"The process holds {use.rss_bytes} bytes, {use.peak_bytes} at most so far. Keys and values are on disk; "
        "what is in memory is RocksDB's cache and memtables, whose sizes are settings, and what clients have sent.\n"
    )
    return Verbatim(text.encode())


@server_command(
    "MEMORY MALLOC-STATS",
    group="server",
    since="4.0.0",
    flags=("loading",),
    categories=("slow",),
    immediate=True,
    container=True,
)
def memory_malloc_stats(client: object, args: list[bytes]) -> Reply:
    """Return a line that says that the allocator has no statistics."""
    return b"Stats not supported for the current allocator"


@server_command("MEMORY PURGE", group="server", since="4.0.0", flags=("loading",), categories=("slow",), container=True)
def memory_purge(client: Client[Process], args: list[bytes]) -> Reply:
    """Collect garbage, and give free memory back to the kernel."""
    gc.collect()
    client.server.heap.give_back()
    return OK


@server_command("MEMORY STATS", group="server", since="4.0.0", categories=("slow",), container=True)
def memory_stats(client: Client[Shared[Session]], args: list[bytes]) -> Reply:
    """Return the process' memory in bytes. A key counts as one metadata record, expired ones included."""
    use = memory_use()
    keys = sum(key_counts(client.server.pipelines).values())
    used = max(0, use.rss_bytes - use.startup_bytes)
    return Map(
        [
            (b"peak.allocated", use.peak_bytes),
            (b"total.allocated", use.rss_bytes),
            (b"startup.allocated", use.startup_bytes),
            (b"replication.backlog", 0),
            (b"clients.slaves", 0),
            (b"clients.normal", sum(other.output_bytes for other in client.server.sessions.values())),
            (b"overhead.total", use.startup_bytes),
            (b"keys.count", keys),
            (b"keys.bytes-per-key", used // keys if keys else 0),
            (b"dataset.bytes", used),
            (b"dataset.percentage", 100.0 * used / use.rss_bytes),
            (b"peak.percentage", 100.0 * use.rss_bytes / use.peak_bytes),
        ]
    )


# ---------------------------------------------------------------------- pieces


async def _standbys(client: Session, wanted: int, timeout_ms: int) -> int:
    """How many standbys have what this worker has applied; waits, which does not count as the command's own time."""
    server = client.server
    offsets = applied_here(server)
    began = perf_counter()
    while (count := standbys_at(server, offsets)) < wanted and not client.in_exec:
        waited_ms = (perf_counter() - began) * 1000
        if waited_ms >= timeout_ms if timeout_ms else count >= standbys_planned(server, offsets):
            break
        hurry(server)
        await asyncio.sleep(min(_LOOK_SECONDS, (timeout_ms - waited_ms) / 1000) if timeout_ms else _LOOK_SECONDS)
    client.waited_seconds += perf_counter() - began
    return count


def _timeout_ms(arg: bytes) -> int:
    timeout_ms = parse_int(arg)
    if timeout_ms is None:
        raise CommandError("ERR timeout is not an integer or out of range")
    if timeout_ms < 0:
        raise CommandError("ERR timeout is negative")
    return timeout_ms
