"""A real Apache Kafka broker: one KRaft node on free loopback ports, its data in a directory of the test.

The jars come from Maven Central by `make kafka` (tests/real/kafka/pom.xml) and lie in .cache/kafka/.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from tests.real.process import Server, ServerError, free_ports

JARS = Path(__file__).parents[2] / ".cache" / "kafka"
CLUSTER_ID = "c2xvdGxvZy10ZXN0LWtyYWZ0"  # any 16 bytes in base64: one broker never meets another
START_TIMEOUT_S = 300  # a bound, for a machine that does much else: it takes seconds

# Serial GC, a small heap and shared class data: a test broker has to be up soon and to leave both cores alone.
_JVM = ("-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-Xshare:auto", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
QUICK_COMPILER = "-XX:TieredStopAtLevel=1"  # a start takes half of the processor time, what runs for long takes more
QUICK_JAVA = MappingProxyType({"JDK_JAVA_OPTIONS": f"{QUICK_COMPILER} -XX:+UseSerialGC"})
"""An environment in which Java starts so, whoever starts it."""

ARCHIVE = JARS / "broker.jsa"
"""The classes of a broker as Java has them when they are loaded: with it a start takes 2 s of processor time, not 3.

`make_archive` makes it. Another Java, or other jars, do without.
"""

_PROPERTIES = MappingProxyType(
    {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.listener.names": "CONTROLLER",
        "auto.create.topics.enable": "false",
        "message.max.bytes": str(10 << 20),  # above the 9 MiB that slotlog's topics are created with
        "log.segment.delete.delay.ms": "1000",
        "log.cleaner.dedupe.buffer.size": str(4 << 20),  # 128 MiB by default, a quarter of the heap
        # A killed broker is let in again when its session has ended: 9 s by default.
        "broker.session.timeout.ms": "2000",
        "broker.heartbeat.interval.ms": "500",
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "1000",  # a test need not wait longer for a dead member
        # The internal topics want three brokers and 50 partitions unless told otherwise.
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
    }
)


class KafkaBroker:
    """One broker that a test may start, stop, kill and restart; ports and data stay the same all along.

    Calls block: from a coroutine use `await asyncio.to_thread(broker.restart)`.

    Args:
        directory: An empty directory for its data, its settings and its log (`broker.log`).
        properties: Settings over those above, for example another `message.max.bytes`.
        secured: Protocol of a second listener, `listener.name.secured` in the properties; none when empty.
        measured: It is part of a measurement: Java compiles it as well as it can, and it is up later.
        port: Of its clients; 0: a free one.
        java: More options of Java.
    """

    def __init__(
        self,
        directory: Path,
        properties: Mapping[str, str] | None = None,
        secured: str = "",
        *,
        measured: bool = False,
        port: int = 0,
        java: Sequence[str] = (),
    ) -> None:
        self._port, controller_port, self._secured_port = free_ports(3)
        self._port = port or self._port
        self._directory = directory
        self._settings = directory / "server.properties"
        listener = f"PLAINTEXT://127.0.0.1:{self._port}"
        if secured:
            listener += f",SECURED://127.0.0.1:{self._secured_port}"
        settings = {
            **_PROPERTIES,
            "listeners": f"{listener},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": listener,
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURED:{secured or 'SSL'}",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "log.dirs": str(directory / "data"),
            **(properties or {}),
        }
        self._settings.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        quick = [QUICK_COMPILER, *([f"-XX:SharedArchiveFile={ARCHIVE}"] if ARCHIVE.exists() else [])]
        self._java = _java([*_JVM, *([] if measured else quick)])
        command = [*self._java, *java, "kafka.Kafka", str(self._settings)]
        self._server = Server("Kafka", command, directory / "broker.log", self._answers, START_TIMEOUT_S)

    @property
    def bootstrap(self) -> str:
        """Its address as HOST:PORT."""
        return f"127.0.0.1:{self._port}"

    @property
    def secured_bootstrap(self) -> str:
        """The address of the secured listener."""
        return f"127.0.0.1:{self._secured_port}"

    @property
    def running(self) -> bool:
        """Whether its process is there."""
        return self._server.running

    def start(self) -> None:
        """Start it and wait until it serves requests; the first start formats its storage.

        Raises:
            ServerError: It could not start; the message has the end of its log.
        """
        self.format()
        self._server.start()

    def stop(self) -> None:
        """End it in order."""
        self._server.stop()

    def kill(self) -> None:
        """End it with SIGKILL."""
        self._server.kill()

    def pause(self) -> None:
        """Let it hang with SIGSTOP. It must run again, or be killed, before it can be stopped."""
        self._server.pause()

    def resume(self) -> None:
        """Let it run again."""
        self._server.resume()

    def restart(self) -> None:
        """Stop it if it runs, and start it on the same data and ports."""
        self.stop()
        self.start()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def format(self) -> None:
        """Format its storage, unless it was done before."""
        if (self._directory / "data").exists():
            return
        command = [*self._java, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(self._settings)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ServerError(f"Kafka could not format its storage\n{done.stdout}{done.stderr}")

    def _answers(self) -> bool:
        socket.create_connection(("127.0.0.1", self._port), timeout=1).close()  # before aiokafka, which logs a refusal
        # In a thread of its own, since this one may be running an event loop.
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(asyncio.run, lists_a_broker(self.bootstrap)).result()


def make_archive() -> None:
    """Start a broker and end it in order, which leaves ARCHIVE behind; nothing to do where that is there already."""
    with (JARS / "archive.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if ARCHIVE.exists():
            return
        with tempfile.TemporaryDirectory(dir=JARS) as directory:
            made = Path(directory, "made.jsa")
            with KafkaBroker(Path(directory), java=[f"-XX:ArchiveClassesAtExit={made}"]):
                pass
            made.rename(ARCHIVE)


async def lists_a_broker(bootstrap: str) -> bool:
    """Whether the metadata names a broker: it does as soon as the controller has let it in."""
    client = AIOKafkaAdminClient(bootstrap_servers=bootstrap, request_timeout_ms=5_000)
    try:
        await client.start()
        return bool((await client.describe_cluster())["brokers"])
    except KafkaError:
        return False
    finally:
        await client.close()


def _java(options: Sequence[str]) -> list[str]:
    """The start of a command line with options of Java, up to the main class.

    Raises:
        ServerError: No Java, or no jars.
    """
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin" if home else None)
    if java is None:
        raise ServerError("no java on PATH or in JAVA_HOME: install Java 17")
    if not any(JARS.glob("kafka_*.jar")):
        raise ServerError(f"no Kafka jars in {JARS}: run `make kafka`")
    return [java, *options, "-cp", f"{JARS}/*"]
