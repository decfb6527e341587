"""Workers of a group on a cluster of three brokers, and the oracle over what they hold in the end."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Final

import redis

from tests.faults.grouped import GroupedWorker, connect, keys_of
from tests.faults.ledger import Writer, lists
from tests.ops.verbs import succeed, wait_until
from tests.real.cluster import KafkaCluster
from tests.real.link import Link
from tests.real.process import free_ports

LARGE: Final = os.environ.get("GROUP_FAULTS") == "large"
"""Whether this is the nightly run."""

MORE: Final = 300 if LARGE else 10
"""Values of each key that have to be acknowledged before, during and after a fault."""

SESSION_SECONDS: Final = 4
PARTITIONS: Final = 3


class Rig:
    """Workers, each of which has a standby elsewhere for what it owns.

    Args:
        cluster: of brokers.
        home: of their states.
        count: of workers.
        stack: ends them.
        linked: clients, and the other workers, reach a worker through a link.

    Attributes:
        topic: their log.
        ports, replica_ports: of each worker, as it says.
        links: to each worker, where there are any.
        workers: those that run now.
        keys: one in each partition.
    """

    def __init__(
        self, cluster: KafkaCluster, home: Path, count: int, stack: ExitStack, *, linked: bool = False
    ) -> None:
        self.cluster = cluster
        self.topic = f"rig-{uuid.uuid4().hex}"
        self.group = f"{self.topic}-g"
        self.ports, self.replica_ports = free_ports(count), free_ports(count)
        self._own_ports = free_ports(count) if linked else self.ports
        self.links = [Link(*ports) for ports in zip(self.ports, self._own_ports, strict=True)] if linked else []
        for link in self.links:
            stack.enter_context(link)
        self.workers: dict[int, GroupedWorker] = {}
        self.keys = keys_of(PARTITIONS)
        self._home = home
        self._stack = stack
        for number in range(count):
            self.start(number)
        self.wait_until_shared()

    def start(self, number: int) -> GroupedWorker:
        """Start a worker, on what it has left behind."""
        worker = GroupedWorker(
            self.data(number),
            f"kafka://{self.cluster.bootstrap}",
            self.topic,
            self._own_ports[number],
            PARTITIONS,
            session_seconds=SESSION_SECONDS,
            standbys=1,
            replica_port=self.replica_ports[number],
            variables={
                "SLOTLOG_KAFKA__REQUEST_TIMEOUT_MS": "4000",
                "SLOTLOG_REDIS__ANNOUNCE": f"127.0.0.1:{self.ports[number]}",
            },
        )
        self.workers[number] = self._stack.enter_context(worker)
        return worker

    def data(self, number: int) -> Path:
        """The states of a worker."""
        return self._home / str(number)

    def kill(self, number: int) -> None:
        """SIGKILL."""
        self.workers.pop(number).kill()

    def wait_until_shared(self) -> None:
        """Wait until every worker that runs owns partitions, and says the same of that."""
        ports = {self.ports[number] for number in self.workers}

        def is_shared() -> bool:
            owners = [worker.owners() for worker in self.workers.values()]
            return all({*each.values()} == ports and each == owners[0] for each in owners)

        wait_until(is_shared, "every worker to own", self._shown)

    def _shown(self) -> list[object]:
        """What each worker that is to run says of the owners, whether it runs, and its last words."""
        return [(each.owners(), each.is_running(), each.said()[-5:]) for each in self.workers.values()]

    def owners(self) -> dict[int, int]:
        """The owners' ports by the first slot of a range, as one worker has it."""
        return next(iter(self.workers.values())).owners()

    def owner_of(self, key: str) -> int:
        """The worker that owns a key."""
        port = self.ports[next(iter(self.workers))]
        for _ in range(len(self.ports)):
            connection = connect(port)
            try:
                connection.get(key)
            except redis.exceptions.MovedError as error:
                port = error.port
            except redis.ResponseError:  # it is a list
                pass
            finally:
                connection.close()
        return self.ports.index(port)

    @contextmanager
    def writing(self, name: str, *, depth: int = 1) -> Iterator[Writer]:
        """A client that writes while the block runs, and what it was told held against the lists in the end."""
        keys = [f"{{{key}}}{name}" for key in self.keys]
        writer = Writer(self.running_ports, keys, depth)
        writer.start()
        try:
            writer.wait_for_more(MORE)
            yield writer
            writer.wait_for_more(MORE)
        finally:
            writer.stop()
        faults = writer.faults(lists(self.running_ports, keys))
        assert faults == {}, (faults, writer.errors)

    @property
    def running_ports(self) -> list[int]:
        """Of the workers that run."""
        return [self.ports[number] for number in self.workers]

    def compare(self) -> None:
        """Wait until all copies of a partition are at one position, and hold their digests against each other."""
        wait_until(self._are_at_one_position, "all copies of a partition to be at one position", self._shown)

    def _are_at_one_position(self) -> bool:
        copies = self._caught_up_copies()
        held = {number: digests(self.data(number)) for number in self.workers}
        found = {partition: {held[each].get(partition) for each in numbers} for partition, numbers in copies.items()}
        if any(len({each and each[0] for each in one}) > 1 for one in found.values()):
            return False
        assert dict.fromkeys(found, 1) == {partition: len(one) for partition, one in found.items()}, found
        return True

    def end(self) -> dict[int, dict[int, tuple[int, str]]]:
        """Let followers catch up, and kill all; position and digest of each copy: partition -> worker -> those.

        All at once: an owner that stops in order gives its partitions to another one first.
        """
        copies = self._caught_up_copies()
        for number in list(self.workers):
            self.kill(number)
        held = {number: digests(self.data(number)) for number in range(len(self.ports))}
        return {partition: {each: held[each][partition] for each in numbers} for partition, numbers in copies.items()}

    def end_and_replay(self, home: Path) -> tuple[list[list[tuple[int, str]]], list[list[tuple[int, str]]]]:
        """`end`; position and digest of the two copies of each partition, and of a replay in their place."""
        copies, replayed = self.end(), home / "replayed"
        log = "--log", f"kafka://{self.cluster.bootstrap}", "--topic", self.topic, "--partitions", PARTITIONS
        succeed("replay", "--to", replayed, "--data", home / "none", *log)
        return [[*of.values()] for of in copies.values()], [[each] * 2 for _, each in sorted(digests(replayed).items())]

    def _copies(self) -> dict[int, list[int]]:
        """The owner and the followers of each partition, once there are as many as there are to be."""
        worker = self.workers[next(iter(self.workers))]
        wanted = min(2, len(self.workers))

        def nodes() -> list[list[int]]:
            return [each for _, each in sorted(worker.nodes().items())]

        wait_until(
            lambda: [wanted] * PARTITIONS == [len(each) for each in nodes()],
            "an owner and a standby of each partition",
            nodes,
        )
        number_of = {port: number for ports in (self.ports, self.replica_ports) for number, port in enumerate(ports)}
        return {partition: [number_of[port] for port in ports] for partition, ports in enumerate(nodes())}

    def _caught_up_copies(self) -> dict[int, list[int]]:
        """`_copies`, once the followers of each partition have applied a write that its owner takes meanwhile."""
        copies: dict[int, list[int]] = {}

        def are_caught_up() -> bool:
            copies.update(self._copies())
            return all(self._is_caught_up(partition, owner, *others) for partition, (owner, *others) in copies.items())

        wait_until(are_caught_up, "followers to apply a write", self._shown)
        return copies

    def _is_caught_up(self, partition: int, owner: int, *followers: int) -> bool:
        """Whether followers have applied a write that the owner takes now; not where workers share anew meanwhile."""
        key = f"{{{self.keys[partition]}}}last"
        with closing(connect(self.ports[owner])) as client:
            try:
                client.set(key, "1")
            except (redis.exceptions.ClusterDownError, redis.exceptions.MovedError):
                return False  # it applies the partition's log yet, or owns it no more
            _, offset = client.execute_command("SLOTLOG POSITION")  # type: ignore[no-untyped-call]
        for number in followers:
            with closing(connect(self.replica_ports[number])) as client:
                client.execute_command("READONLY")  # type: ignore[no-untyped-call]
                try:
                    reached = client.execute_command("SLOTLOG WAITFOR", partition, offset, 9_000)  # type: ignore[no-untyped-call]
                except redis.ResponseError as error:
                    if "is not applied by this worker" not in str(error):
                        raise
                    return False  # it follows the partition no more
                assert 1 == reached, (partition, offset, number)
        return True


def digests(data: Path) -> dict[int, tuple[int, str]]:
    """Position and digest of every partition in a data directory."""
    found = json.loads(succeed("digest", "--data", data, "--json"))
    return {each["partition"]: (each["next_offset"], each["digest"]) for each in found["partitions"]}
