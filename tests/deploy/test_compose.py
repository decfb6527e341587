"""docker-compose.yml: taken by the real Compose, closed to other machines, and its commands run without containers."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import pytest
import yaml

from resp.cluster.topology import parse_peers
from tests.deploy.files import ROOT, compose, compose_config
from tests.faults.service import ServiceProcess
from tests.ops.verbs import get, metric, wait_until
from tests.real.broker import QUICK_JAVA
from tests.real.process import Server, free_ports

SERVICES: Final[dict[str, dict[str, Any]]] = compose()["services"]
OURS: Final = {"pod", "slotlog-0", "slotlog-1", "load"}
PORTS: Final = ("9092", "9093", "19092", "6379", "6380", "8640", "8641", "9090")
HOSTS: Final = re.compile(r"\b(?:0\.0\.0\.0|127\.0\.0\.1|kafka|slotlog|localhost):(\d+)")


def test_compose_takes_it_with_and_without_traffic() -> None:
    """Compose itself reads it without a warning; the load generator is there when its profile is asked for."""
    plain, loaded = compose_config(), compose_config("--profile", "load")

    assert "\n  load:\n" not in plain
    assert "\n  load:\n" in loaded
    assert {"kafka", "prometheus", "grafana"} | OURS == set(SERVICES)


@pytest.mark.parametrize("page", ["README.md", "docs/operations.md", "docker-compose.yml"])
def test_commands_of_the_pages_name_what_is_there(page: str) -> None:
    """Every `docker compose` line that a reader may type has verbs of Compose, profiles and services of the file."""
    lines = re.findall(r"docker compose ((?:[a-z0-9-]+ ?)+)", (ROOT / page).read_text())
    profiles = {profile for service in SERVICES.values() for profile in service.get("profiles", [])}
    strange = [
        word
        for line in lines
        for word in line.split()
        if not word.startswith("--") and word not in {"up", "down", "logs"} | profiles | set(SERVICES)
    ]

    assert lines
    assert strange == []


@pytest.mark.parametrize("name", SERVICES)
def test_each_service_is_pinned_checked_and_kept_small(name: str) -> None:
    """A version that stays, a health check, an ordinary user without capabilities, ports on loopback, a fixed root."""
    service = SERVICES[name]

    image = "slotlog:local" if name in OURS else service["image"]
    assert re.fullmatch(r"slotlog:local|[a-z/]+:v?\d+\.\d+\.\d+", image)
    assert service["image"] == image
    assert service["healthcheck"]["test"][0] == "CMD"
    assert service["user"].partition(":")[0] not in {"", "0", "root"}
    assert (service["cap_drop"], service["security_opt"]) == (["ALL"], ["no-new-privileges:true"])
    assert {port["host_ip"] for port in service.get("ports", [])} <= {"127.0.0.1"}
    assert service.get("read_only", False) is (name != "kafka")  # whose image writes its settings and logs to it


def test_one_service_builds_the_image() -> None:
    """Two that build one name at the same time fail as "already exists"; the others take what was built, or nothing."""
    ours = {
        name: (service.get("build") is not None, service["pull_policy"])
        for name, service in SERVICES.items()
        if name in OURS
    }

    assert ours == {name: (True, "missing") if name == "pod" else (False, "never") for name in OURS}
    assert all("pod" in SERVICES[name]["depends_on"] for name in ("slotlog-0", "slotlog-1"))


def test_each_worker_may_have_a_network_of_its_own() -> None:
    """With the second file workers share no network: each is found by its name, where the peers' list has it."""
    services = compose("docker-compose.network.yml")["services"]
    workers = {name: services[name] for name in ("slotlog-0", "slotlog-1")}
    peers = parse_peers(workers["slotlog-0"]["environment"]["SLOTLOG_REDIS__PEERS"], 4)

    assert [] == [name for name, service in services.items() if "service:" in service.get("network_mode", "")]
    assert [["default"]] * 3 == [list(services[name]["networks"]) for name in (*workers, "load")]
    assert {(name, int(each["environment"]["SLOTLOG_RESP"].rsplit(":")[-1])) for name, each in workers.items()} == set(
        peers.values()
    )
    assert [] == [port for each in workers.values() for port in each["ports"] if port["host_ip"] != "127.0.0.1"]
    assert ["8640", "8641"] == [port["published"] for each in workers.values() for port in each["ports"]]
    assert services["pod"]["build"] == SERVICES["pod"]["build"]
    assert "ports" not in services["pod"]
    assert services["load"]["environment"]["SLOTLOG_RESP"] == "slotlog-0:6379"


def test_every_mounted_path_is_there() -> None:
    """Each directory and file of the checkout that is mounted exists and is mounted for reading; volumes are named."""
    mounts = [mount for service in SERVICES.values() for mount in service.get("volumes", [])]
    bound = [mount for mount in mounts if mount["type"] == "bind"]

    assert len(bound) >= 4
    assert [mount["source"] for mount in bound if not Path(mount["source"]).exists() or not mount["read_only"]] == []
    assert {mount["source"] for mount in mounts if mount["type"] == "volume"} == set(compose()["volumes"])


def test_grafana_finds_what_is_provisioned() -> None:
    """The directory that the dashboards' provider reads is one that is mounted, with dashboards in it."""
    providers = [
        provider
        for path in (ROOT / "dashboards/provisioning/dashboards").glob("*.y*ml")
        for provider in yaml.safe_load(path.read_text())["providers"]
    ]
    targets = {mount["target"]: mount["source"] for mount in SERVICES["grafana"]["volumes"]}
    (path,) = {provider["options"]["path"] for provider in providers}

    assert len(list(Path(targets[path]).glob("*.json"))) >= 4


class Outside:
    """The services of the file as processes of this machine: other ports, and directories instead of volumes."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.ports = dict(zip(PORTS, map(str, free_ports(len(PORTS))), strict=True))

    def text(self, text: str) -> str:
        """With the addresses of this machine."""
        return HOSTS.sub(lambda at: f"127.0.0.1:{self.ports[at[1]]}" if at[1] in self.ports else at[0], text)

    def environment(self, name: str) -> dict[str, str]:
        """The settings of a service."""
        return {key: self.text(str(value)) for key, value in SERVICES[name]["environment"].items()}

    def mounted(self, path: str) -> Path:
        """What a path inside of a container is here."""
        return self.directory / "root" / path.lstrip("/")

    @contextmanager
    def kafka(self) -> Iterator[None]:
        """The broker, its properties made of KAFKA_… as the image makes them, nothing added."""
        lines = []
        for name, value in SERVICES["kafka"]["environment"].items():
            here = self.text(re.sub(r"://:(\d+)", r"://127.0.0.1:\1", str(value)))
            here = ".data/kafka" if name == "KAFKA_LOG_DIRS" else here
            lines.append(f"{name.removeprefix('KAFKA_').lower().replace('_', '.')}={here}\n")
        script = self.directory / "deploy/local/kafka"
        script.parent.mkdir(parents=True)
        shutil.copy(ROOT / "deploy/local/kafka", script)
        script.with_name("kafka.properties").write_text("".join(lines))
        (self.directory / ".cache").mkdir()
        (self.directory / ".cache/kafka").symlink_to(ROOT / ".cache/kafka")
        try:
            started = subprocess.run(
                [script, "start"], capture_output=True, text=True, env=os.environ | QUICK_JAVA, check=False
            )
            assert started.returncode == 0, started.stderr
            yield
        finally:
            stopped = subprocess.run([script, "stop"], capture_output=True, text=True, check=False)
            assert (stopped.returncode, stopped.stderr) == (0, "")

    @contextmanager
    def worker(self, name: str) -> Iterator[ServiceProcess]:
        """A worker, ready by its own health check."""
        verb, *options = SERVICES[name]["command"]
        assert verb == "serve"
        environment = self.environment(name) | {"SLOTLOG_DATA": str(self.mounted(f"{name}/data"))}
        with ServiceProcess(options, environment) as service:
            service.wait_for("started")
            wait_until(lambda: self.healthy(name), f"{name} to be healthy")
            yield service
            assert service.terminate() == 0

    def healthy(self, name: str) -> bool:
        """Whether the health check of a service of ours says so."""
        _, program, *words = SERVICES[name]["healthcheck"]["test"]
        assert program == "python"
        done = subprocess.run([sys.executable, *map(self.text, words)], capture_output=True, check=False)
        return done.returncode == 0

    def prometheus(self) -> Server:
        """Prometheus with its mounted files, addresses changed."""
        for mount in SERVICES["prometheus"]["volumes"]:
            if mount["type"] == "bind":
                target = self.mounted(mount["target"])
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(self.text(Path(mount["source"]).read_text()))
        words = [
            re.sub(r"=(?=/)", f"={self.directory}/root", self.text(word)) for word in SERVICES["prometheus"]["command"]
        ]
        (config,) = (word.partition("=")[2] for word in words if word.startswith("--config.file"))
        checked = subprocess.run(["promtool", "check", "config", config], capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stdout + checked.stderr
        *_, url = SERVICES["prometheus"]["healthcheck"]["test"]
        return Server(
            "Prometheus",
            ["prometheus", *words],
            self.directory / "prometheus.out",
            lambda: _answers(self.text(url)),
            60,
        )

    def query(self, expression: str) -> list[float]:
        """The values of a PromQL expression now."""
        url = f"http://127.0.0.1:{self.ports['9090']}/api/v1/query?{urlencode({'query': expression})}"
        with urllib.request.urlopen(url, timeout=60) as response:
            return [float(series["value"][1]) for series in json.load(response)["data"]["result"]]


def _answers(url: str) -> bool:
    with urllib.request.urlopen(url, timeout=5) as response:  # noqa: S310 - an address of this machine
        return bool(response.status == 200)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_services_work_together(tmp_path: Path) -> None:
    """Kafka, both workers, load generator and Prometheus, by their own commands and settings, make one running whole.

    Traffic that enters at one worker reaches all four partitions, Prometheus sees both workers, and SIGTERM ends each.
    """
    outside = Outside(tmp_path)
    with ExitStack() as stack:
        stack.enter_context(outside.kafka())
        workers = [stack.enter_context(outside.worker(name)) for name in ("slotlog-0", "slotlog-1")]
        prometheus = outside.prometheus()
        prometheus.start()
        stack.callback(prometheus.stop)
        verb = SERVICES["load"]["command"]
        load = subprocess.Popen(
            [sys.executable, "-m", "ops.cli", *verb, "--json"],
            env=os.environ | outside.environment("load"),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        stack.callback(load.kill)
        wait_until(
            lambda: outside.query("sum(rate(slotlog_events_applied_total[1m])) > 0") != [], "Prometheus to see it"
        )
        healthy = outside.healthy("load")
        load.send_signal(signal.SIGTERM)
        said, _ = load.communicate(timeout=60)
        applied = [metric(worker, "slotlog_next_offset") for worker in workers]
        states = [get(worker, "/readyz").json for worker in workers]
        seen = outside.query('up{job="slotlog"}')

    assert (load.returncode, healthy, seen) == (0, True, [1.0, 1.0])
    assert [state for state in states if not state["ready"]] == []
    assert json.loads(said)["answered"] > 0
    assert [sorted(each) for each in applied] == [
        ['partition="0"', 'partition="1"'],
        ['partition="2"', 'partition="3"'],
    ]
    assert min(offset for each in applied for offset in each.values()) > 0
