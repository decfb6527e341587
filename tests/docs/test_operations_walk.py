"""`docs/operations.md` without Docker: Kafka, two workers, Prometheus and traffic come up as the page says."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Final

import pytest

from tests.docs.test_readme import agrees, environment_of_a_reader, pasted, steps
from tests.real.broker import QUICK_JAVA
from tests.real.process import free_ports

ROOT: Final = Path(__file__).parents[2]
WALK: Final = (
    (ROOT / "docs/operations.md").read_text().partition("\n### Run it without Docker\n")[2].partition("\n### ")[0]
)
PORTS: Final = ("9092", "9093", "6379", "6380", "8640", "8641", "9090")
INSTALL: Final = "make install kafka"


@pytest.fixture
def checkout(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A directory with what the page uses, after its first command; every port in it is another one, as is in the map.

    The page's own ports may be taken on the machine of the test.
    """
    ports = dict(zip(PORTS, map(str, free_ports(len(PORTS))), strict=True))
    for name in ("deploy/local/kafka", "deploy/local/kafka.properties"):
        _copy(name, tmp_path, ports)
    for path in ROOT.glob("dashboards/*.yml"):
        _copy(f"dashboards/{path.name}", tmp_path, ports)
    (tmp_path / ".cache").mkdir()
    for name in (".venv", ".cache/kafka"):
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path, ports


def _copy(name: str, directory: Path, ports: dict[str, str]) -> None:
    target = directory / name
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / name, target)
    target.write_text(elsewhere(target.read_text(), ports))


def elsewhere(text: str, ports: dict[str, str]) -> str:
    """The text with every port after a colon or a slash replaced."""
    return re.sub(r"(?<=:)\d{4}\b", lambda port: ports.get(port[0], port[0]), text)


@pytest.mark.timeout(300)
def test_the_walk_without_docker(checkout: tuple[Path, dict[str, str]]) -> None:
    """Whoever types the page's commands in their order sees what it shows, and nothing is left running."""
    directory, ports = checkout
    (install, _), *walk = steps(WALK)
    commands = [elsewhere(command, ports).replace("--seconds 30", "--seconds 20") for command, _ in walk]
    environment = environment_of_a_reader() | {
        **QUICK_JAVA,
        "SLOTLOG_HTTP": f"127.0.0.1:{ports['8640']}",
        "SLOTLOG_RESP": f"127.0.0.1:{ports['6379']}",
    }

    printed = pasted(commands, directory, environment)

    assert install == INSTALL
    wrong = [
        (command, text, said(directory))
        for (command, shown), text in zip(walk, printed, strict=True)
        if not agrees(text, elsewhere(shown, ports))
    ]
    assert wrong == []
    assert {"worker-0", "worker-1", "kafka", "prometheus"} <= {path.name for path in (directory / ".data").iterdir()}
    assert not (directory / ".data/kafka.pid").exists()


def said(directory: Path) -> dict[str, str]:
    """The end of each log of the walk."""
    return {path.name: path.read_text()[-2000:] for path in directory.glob(".data/*.log")}
