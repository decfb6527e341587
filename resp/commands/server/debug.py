"""DEBUG, for tests. It is off unless the setting `redis.debug_commands` is on.

It is one command, not a container: that is how Redis describes it, and what its error texts say.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from engine.commands.registry import SPECS
from engine.errors import NO_SUCH_KEY, CommandError
from engine.proof.digest import Digest, combine, digest
from engine.values.numbers import parse_double, parse_int
from engine.values.replies import OK, Reply, Status
from ingest.applying.slicing.fiber import AbandonedError
from resp.commands.handlers import Client, server_command
from resp.commands.server.debug_replies import example
from resp.writes.items import Awaited
from resp.writes.stopping import CLOSED

if TYPE_CHECKING:
    from resp.blocking.pause import Pause
    from resp.cluster.router import Router
    from resp.host import Host
    from resp.settings.config import Config
    from resp.writes.write_pipeline import WritePipeline

_NOT_ALLOWED: Final = (
    'ERR DEBUG command not allowed. If the enable-debug-command option is set to "local", you can run it from a local '
    "connection, otherwise you need to set this option in the configuration file, and then restart the server."
)
_HELP: Final = """DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:
DIGEST
    The digest of all live keys of this worker's partitions.
ERROR <string>
    Answer with this error.
RELOAD
    Replay the log into another directory and compare the two states.
SET-ACTIVE-EXPIRE <0|1>
    Whether the clock of an idle partition is moved when keys of it are due.
SLEEP <seconds>
    Let this connection wait.
OBJECT <key>
    What is known of a key's value. It has no place in memory, so its address and times are 0.
PROTOCOL <type>
    Answer with a reply of this type of RESP, such as string, map or push.
HELP
    Print this help."""


class Debugged(Protocol):
    """The part of a server that DEBUG reads and changes.

    Attributes:
        active_expire: whether keys may go by themselves.
        pause: of the writes, while the log is replayed.
        router: finds the partition of keys.
    """

    active_expire: bool
    config: Config
    host: Host
    pause: Pause
    pipelines: dict[int, WritePipeline]
    router: Router


class DebuggingClient(Client[Debugged], Protocol):
    """A client that may send DEBUG.

    Attributes:
        is_loopback: whether it is on this machine.
        db: the database that it has selected.
        protocol: 2 or 3.
    """

    is_loopback: bool
    db: int
    protocol: Literal[2, 3]

    def send(self, reply: Reply) -> None:
        """Send it what is no reply, behind the reply to the command at hand."""


@server_command(
    "DEBUG subcommand [arg ...]",
    group="server",
    since="1.0.0",
    complexity="depends on the subcommand: DIGEST O(all records), RELOAD O(the whole log)",
    flags=("admin", "noscript", "loading", "stale"),
    categories=("admin", "slow", "dangerous"),
)
def debug(client: DebuggingClient, args: list[bytes]) -> Reply:
    """Run a debug command, such as a digest or a replay, in tests; see DEBUG HELP."""
    allowed = client.server.config["enable-debug-command"]
    if not (allowed == "yes" or (allowed == "local" and client.is_loopback)):
        raise CommandError(_NOT_ALLOWED)
    name, rest = args[0].upper(), args[1:]
    words, handler = _SUBCOMMANDS.get(name, (-1, _help))
    if name == b"RELOAD" and any(word.upper() not in _RELOAD_OPTIONS for word in rest):
        raise CommandError("ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.")
    if len(rest) != words:
        shown = args[0].decode(errors="surrogateescape")
        raise CommandError(f"ERR unknown subcommand or wrong number of arguments for '{shown}'. Try DEBUG HELP.")
    return handler(client, rest)


def _help(client: Client[Debugged], args: list[bytes]) -> Reply:
    return [Status(line.encode()) for line in _HELP.splitlines()]


async def _digest(client: Client[Debugged], args: list[bytes]) -> Reply:
    """Of each partition at one moment: it answers nobody else meanwhile."""
    gates = [(pipeline, pipeline.owned.worker.gate) for pipeline in client.server.pipelines.values()]
    try:
        digests = [await gate.call(partial(gate.hold, partial(_digest_of, pipeline))) for pipeline, gate in gates]
    except AbandonedError:
        raise CommandError(CLOSED.message) from None
    return Status(str(combine(digests)).encode())


def _digest_of(pipeline: WritePipeline) -> Digest:
    with pipeline.owned.reading():
        machine = pipeline.machine
        return digest(pipeline.owned.worker.store, machine.layout, machine.clock_ms)


def _error(client: Client[Debugged], args: list[bytes]) -> Reply:
    raise CommandError(args[0].decode(errors="surrogateescape").replace("\r", " ").replace("\n", " "))


async def _sleep(client: Client[Debugged], args: list[bytes]) -> Reply:
    """Redis holds up everybody; here only this connection waits. Text that is no number is 0, as there."""
    seconds = parse_double(args[0])
    await asyncio.sleep(max(0.0, seconds or 0.0))
    return OK


def _set_active_expire(client: Client[Debugged], args: list[bytes]) -> Reply:
    client.server.active_expire = bool(parse_int(args[0]) or 0)
    return OK


def _protocol(client: DebuggingClient, args: list[bytes]) -> Reply:
    return example(client, args[0])


async def _object(client: DebuggingClient, args: list[bytes]) -> Reply:
    pipeline = client.server.router.pipeline_of(args)
    reads = [Awaited(spec.name, args, client.db, spec=spec) for spec in (_ENCODING, _DUMP)]
    for read in reads:
        pipeline.submit(read)
    encoding, payload = [await read.done for read in reads]
    for reply in (encoding, payload):
        if reply is None:
            raise CommandError(NO_SUCH_KEY)
        if isinstance(reply, CommandError):
            raise reply
    serialized_bytes = len(payload) - _DUMP_FRAME_BYTES
    known = f"refcount:1 encoding:{encoding.decode()} serializedlength:{serialized_bytes} lru:0 lru_seconds_idle:0"
    return Status(f"Value at:0x0 {known}".encode())


_ENCODING: Final = SPECS[b"OBJECT|ENCODING"]
_DUMP: Final = SPECS[b"DUMP"]
_DUMP_FRAME_BYTES: Final = 11  # the type before the value, version and checksum behind it
_RELOAD_OPTIONS: Final = (b"MERGE", b"NOFLUSH", b"NOSAVE")
"""Redis' own. They are about its file, so a reload with one of them is refused as one argument too many."""
_RELOAD_MS_MAX: Final = 600_000
_EXISTS: Final = SPECS[b"EXISTS"]


async def _reload(client: Client[Debugged], args: list[bytes]) -> Reply:
    """Clients' writes, and the ticks of idle partitions, wait meanwhile: both states must stand at one offset.

    What was on its way before is waited for: a read that stands behind it is answered when it is applied.
    """
    server = client.server
    ticking, server.active_expire = server.active_expire, False
    server.pause.begin(_RELOAD_MS_MAX, writes_only=True)
    try:
        behind = [Awaited(_EXISTS.name, [b""], 0, spec=_EXISTS) for _ in server.pipelines]
        for pipeline, read in zip(server.pipelines.values(), behind, strict=True):
            pipeline.submit(read)
        for read in behind:
            await read.done
        difference = await server.host.reload_and_compare()
    finally:
        server.pause.end()
        server.active_expire = ticking
    if difference:
        raise CommandError(f"ERR the replayed state differs: {difference}")
    return OK


_SUBCOMMANDS: Final[
    Mapping[bytes, tuple[int, Callable[[DebuggingClient, list[bytes]], Reply | Coroutine[Any, Any, Reply]]]]
] = {
    b"DIGEST": (0, _digest),
    b"ERROR": (1, _error),
    b"HELP": (0, _help),
    b"OBJECT": (1, _object),
    b"PROTOCOL": (1, _protocol),
    b"RELOAD": (0, _reload),
    b"SET-ACTIVE-EXPIRE": (1, _set_active_expire),
    b"SLEEP": (1, _sleep),
}
"""Name -> how many arguments it takes, and what it does."""
