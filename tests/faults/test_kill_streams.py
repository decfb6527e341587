"""kill -9 under writers of a stream and consumers of a group: nothing is lost or done twice."""

from __future__ import annotations

import asyncio
import os
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest

from tests.real.oracle import Connection, ErrorReply, NullArray
from tests.wire.client import Client
from tests.wire.servers import RespServer, slotlog, valkey

KILLS: Final = int(os.environ.get("SLOTLOG_STREAM_KILLS", "1"))
WRITERS: Final = 6
CONSUMERS: Final = 4
ENTRIES_BETWEEN_KILLS: Final = 150
_RECONNECT_S: Final = 0.02
_SECONDS_MAX: Final = 90 + 60 * KILLS
_CONSUMED: Final = 5
_BLOCK_MS: Final = 100


class Work:
    """Clients of one stream, and what they were told.

    Attributes:
        added: the id of each value whose XADD was answered.
        given: the consumers that were given each id, and how often each was.
        done: how many XACKs of each id said that it was pending.
        unsure: ids of XACKs that were not answered.
    """

    def __init__(self, address: tuple[str, int]) -> None:
        self.added: dict[bytes, bytes] = {}
        self.given: defaultdict[bytes, Counter[str]] = defaultdict(Counter)
        self.done: Counter[bytes] = Counter()
        self.unsure: set[bytes] = set()
        self._address = address
        self._is_writing = self._is_reading = True
        self._changed = asyncio.Event()

    async def run(self, server: RespServer, kills: int) -> None:
        """Write and consume while the server is killed so many times, and until all is acknowledged."""
        async with asyncio.timeout(_SECONDS_MAX), asyncio.TaskGroup() as tasks:
            for number in range(WRITERS):
                values = map(f"{number}.{{}}".format, count())
                tasks.create_task(self._connected(partial(self._write, values=values)))
            for number in range(CONSUMERS):
                tasks.create_task(self._connected(partial(self._consume, name=f"consumer{number}")))
            for _ in range(kills):
                await self._wait_for(len(self.added) + ENTRIES_BETWEEN_KILLS)
                server.kill()
                await asyncio.to_thread(server.start)
            await self._wait_for(len(self.added) + ENTRIES_BETWEEN_KILLS)
            self._is_writing = False
            await asyncio.to_thread(self._wait_until_done, server)
            self._is_reading = False

    async def _wait_for(self, entries: int) -> None:
        while len(self.added) < entries:
            self._changed.clear()
            await self._changed.wait()

    def _wait_until_done(self, server: RespServer) -> None:
        """Until the group has got all and nothing is pending."""
        with closing(server.connect()) as connection:
            while _standing(connection)[:2] != (0, 0):
                connection.call("XREAD", "BLOCK", 20, "STREAMS", "idle", "$")

    async def _write(self, client: Client, values: Iterator[str]) -> None:
        while self._is_writing:
            value = next(values).encode()  # one that is not answered is not sent again
            reply = await client.call("XADD", "work", "*", "value", value)
            if isinstance(reply, bytes):
                self.added[value] = reply
                self._changed.set()

    async def _consume(self, client: Client, name: str) -> None:
        """Work on what is new, but first on what this consumer was given before an outage and has not done."""
        above = "0"
        while self._is_reading:
            words = ("COUNT", _CONSUMED, "BLOCK", _BLOCK_MS, "STREAMS", "work", above)
            reply = await client.call("XREADGROUP", "GROUP", "crew", name, *words)
            ids = _ids(reply)
            for entry_id in ids:
                self.given[entry_id][name] += 1
            failed = await self._acknowledge(client, ids) or isinstance(reply, ErrorReply)
            above = "0" if failed or (ids and above == "0") else ">"

    async def _connected(self, work: Callable[[Client], Awaitable[None]]) -> None:
        """Do something with a connection, and again with a new one, as often as it ends."""
        while self._is_reading:
            try:
                client = await Client.connect(self._address)
            except ConnectionError:
                await asyncio.sleep(_RECONNECT_S)
                continue
            try:
                await work(client)
            except ConnectionError:
                await asyncio.sleep(_RECONNECT_S)
            else:
                return
            finally:
                client.close()

    async def _acknowledge(self, client: Client, ids: list[bytes]) -> bool:
        """Acknowledge entries. Returns whether one of them was refused, as the server is not up yet or its log away."""
        failed = False
        for entry_id in ids:
            try:
                reply = await client.call("XACK", "work", "crew", entry_id)
            except ConnectionError:
                self.unsure.add(entry_id)
                raise
            if isinstance(reply, ErrorReply):
                self.unsure.add(entry_id)
                failed = True
            else:
                self.done[entry_id] += reply
        return failed

    # ------------------------------------------------------------------ what must hold

    def problems(self, connection: Connection) -> list[str]:
        """What is wrong with the stream and its group, beside what the clients were told."""
        entries = {fields[1]: entry_id for entry_id, fields in connection.call("XRANGE", "work", "-", "+")}
        values = [fields[1] for _, fields in connection.call("XRANGE", "work", "-", "+")]
        found = [f"{value!r} is there {times} times" for value, times in Counter(values).items() if times > 1]
        found += [f"{value!r} was added as {at!r}" for value, at in self.added.items() if entries.get(value) != at]
        for value, entry_id in entries.items():
            if len(self.given[entry_id]) != 1:
                found.append(f"{value!r} was given to {sorted(self.given[entry_id])}")
            if self.done[entry_id] > 1 or (not self.done[entry_id] and entry_id not in self.unsure):
                found.append(f"{value!r} was acknowledged {self.done[entry_id]} times")
        pending, lag, read = _standing(connection)
        if (pending, lag, read) != (0, 0, len(values)):
            found.append(f"of {len(values)} entries {read} were read, {pending} are pending, {lag} are not read")
        return found


def _standing(connection: Connection) -> tuple[int, int, int]:
    """How many entries are pending in the group, not read, and read."""
    (group,) = connection.call("XINFO", "GROUPS", "work")
    facts = dict(zip(group[::2], group[1::2], strict=True))
    return facts[b"pending"], facts[b"lag"], facts[b"entries-read"] or 0


def _ids(reply: Any) -> list[bytes]:
    """The ids of what an XREADGROUP gave; none where it is refused."""
    if reply is None or isinstance(reply, NullArray | ErrorReply):
        return []
    return [entry_id for _, entries in reply for entry_id, _ in entries]


async def worked(server: RespServer, kills: int) -> tuple[Work, list[str]]:
    """Clients that worked while their server was killed, and what was wrong then."""
    with server:
        with closing(server.connect()) as connection:
            connection.call("XGROUP", "CREATE", "work", "crew", "0", "MKSTREAM")
        work = Work(server.address)
        await work.run(server, kills)
        with closing(server.connect()) as connection:
            return work, work.problems(connection)


@pytest.mark.timeout(600)
async def test_kills_lose_no_entry(tmp_path: Path) -> None:
    """Each acknowledged XADD is there once, and each entry was given to one consumer and acknowledged once."""
    work, problems = await worked(slotlog(tmp_path), KILLS)

    assert [] == problems
    assert len(work.added) > KILLS * ENTRIES_BETWEEN_KILLS


@pytest.mark.timeout(600)
async def test_kills_on_kafka_lose_no_entry(tmp_path: Path, kafka_bootstrap: str) -> None:
    """The same where the log is Kafka's."""
    _, problems = await worked(slotlog(tmp_path, f"kafka://{kafka_bootstrap}"), KILLS)

    assert [] == problems


async def test_the_oracle_passes(tmp_path: Path) -> None:
    """What is demanded here is what valkey-server does with `appendfsync always`."""
    _, problems = await worked(valkey(tmp_path), KILLS)

    assert [] == problems


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (["XDEL", "work", "1-1"], "was added as"),
        (["XADD", "work", "9-1", "value", "0.0"], "is there 2 times"),
        (["XADD", "work", "9-1", "value", "0.9"], "was given to []"),
        (["XGROUP", "SETID", "work", "crew", "0", "ENTRIESREAD", "0"], "0 were read"),
        (["XCLAIM", "work", "crew", "ann", "0", "1-1", "FORCE"], "1 are pending"),
    ],
)
def test_damage_is_found(damage: list[str], problem: str, oracle: Connection) -> None:
    """What is lost, there twice, not given or not acknowledged shows."""
    work = Work(("", 0))
    oracle.call("XGROUP", "CREATE", "work", "crew", "0", "MKSTREAM")
    for entry_id, value in ((b"1-1", b"0.0"), (b"1-2", b"0.1")):
        oracle.call("XADD", "work", entry_id, "value", value)
        work.added[value], work.given[entry_id], work.done[entry_id] = entry_id, Counter(["ann"]), 1
    for entry_id in _ids(oracle.call("XREADGROUP", "GROUP", "crew", "ann", "STREAMS", "work", ">")):
        oracle.call("XACK", "work", "crew", entry_id)
    assert [] == work.problems(oracle)

    oracle.call(*damage)

    assert any(problem in found for found in work.problems(oracle))
