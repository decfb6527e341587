"""`README.md` is true: the commands that it tells a reader to type are typed, and print what it shows."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final
from uuid import uuid4

import pytest

from ops.version import VERSION
from resp.reports.info import REDIS_VERSION
from resp.writes.entries import TOO_LARGE
from slotlog.shared.limits import RECORD_BYTES_MAX
from tests.real.process import free_ports

PAGE: Final = (Path(__file__).parents[2] / "README.md").read_text()
PATIENCE_SECONDS: Final = 60
PASTE_SECONDS: Final = 240
PORTS: Final = ("6379", "6380", "8640", "8641")
MARK: Final = "== step"
EMBEDDED, _, KAFKA = PAGE.partition("## With Kafka\n")


def steps(text: str) -> list[tuple[str, str]]:
    """Each command of the console blocks of `text` with the output that stands below it."""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            heredoc = re.match(r"[^\n]*<<'END'\n.*?^END\n", step, re.DOTALL | re.MULTILINE)
            command = heredoc[0] if heredoc else step.partition("\n")[0]
            found.append((command.strip(), step[len(command) :].strip()))
    return found


def environment_of_a_reader() -> dict[str, str]:
    """No settings, and the program on PATH."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SLOTLOG_")}
    return {**environment, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"}


def agrees(printed: str, shown: str) -> bool:
    """Whether the page shows what was printed; an ellipsis on the page stands for anything within a line."""
    return re.fullmatch(".+".join(map(re.escape, shown.split("…"))), printed) is not None


def typed(command: str, directory: Path, environment: dict[str, str]) -> str:
    """What a command prints that must succeed."""
    done = subprocess.run(
        ["bash", "-c", command], cwd=directory, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout.strip()


def on_other_ports(command: str, ports: dict[str, str]) -> str:
    """The command with the ports that the services of the test listen on, as redis-cli needs them."""
    for port, other in ports.items():
        command = command.replace(f":{port}", f":{other}")
    return command.replace("redis-cli ", f"redis-cli --no-raw -p {ports[PORTS[0]]} ")


@contextmanager
def serving(command: str, directory: Path, environment: dict[str, str], ports: dict[str, str]) -> Iterator[None]:
    """The service that a command of the page starts, on other ports: the page's may be taken."""
    options = ["--http", f"127.0.0.1:{ports['8640']}", "--resp", f"127.0.0.1:{ports['6379']}"]
    service = subprocess.Popen([*command.split(), *options], cwd=directory, env=environment)
    try:
        yield
    finally:
        service.terminate()
        assert service.wait(PATIENCE_SECONDS) == 0


def follow(text: str, directory: Path, environment: dict[str, str]) -> list[tuple[str, str]]:
    """Type the page's commands; returns those that print something else than the page shows, with what they print."""
    wrong = []
    # Chosen when they are needed: of a port that was free a minute ago, another test's server may have come to listen.
    ports = dict(zip(PORTS, map(str, free_ports(len(PORTS))), strict=True))
    with ExitStack() as services:
        for command, shown in steps(text):
            if command.startswith("slotlog serve"):
                services.enter_context(serving(command, directory, environment, ports))
                continue
            printed = typed(on_other_ports(command, ports), directory, environment)
            if not agrees(printed, shown):
                wrong.append((command, printed))
    return wrong


def pasted(commands: list[str], directory: Path, environment: dict[str, str]) -> list[str]:
    """What each command prints, with its status behind it if that is not 0; all go into one shell, in one piece."""
    script = "".join(
        f"{command}\nstatus=$?; [ $status = 0 ] || echo status $status\necho '{MARK}'\n" for command in commands
    )
    output = directory / "output"
    with output.open("w") as file:
        shell = subprocess.Popen(
            ["bash", "-c", f"{script}wait"], cwd=directory, env=environment, stdout=file, start_new_session=True
        )
    try:
        assert shell.wait(PASTE_SECONDS) == 0
    finally:
        with suppress(ProcessLookupError):  # what a failed walk has left behind
            os.killpg(shell.pid, signal.SIGKILL)
    return [part.strip() for part in output.read_text().split(f"{MARK}\n")[:-1]]


def test_commands_print_what_the_page_shows(tmp_path: Path) -> None:
    """A reader who types every command of the page, in order, sees what it shows."""
    assert "slotlog serve" in [command for command, _ in steps(EMBEDDED)]

    assert [] == follow(EMBEDDED, tmp_path, environment_of_a_reader())


@pytest.mark.timeout(300)
def test_commands_with_kafka_are_pasted(tmp_path: Path, kafka_bootstrap: str) -> None:
    """The block about Kafka, pasted whole into a shell, prints what the page shows, on another broker and ports."""
    events, _ = steps(EMBEDDED)[0]
    typed(events, tmp_path, environment_of_a_reader())
    walk = steps(KAFKA)
    ports = dict(zip(PORTS, map(str, free_ports(len(PORTS))), strict=True))
    elsewhere = {"127.0.0.1:9092": kafka_bootstrap, "SLOTLOG_TOPIC=board": f"SLOTLOG_TOPIC=readme-{uuid4().hex}"}
    commands = [on_other_ports(command, ports) for command, _ in walk]
    for here, there in elsewhere.items():
        commands = [command.replace(here, there) for command in commands]
    defaults = {"SLOTLOG_RESP": f"127.0.0.1:{ports['6379']}", "SLOTLOG_HTTP": f"127.0.0.1:{ports['8640']}"}

    printed = pasted(commands, tmp_path, environment_of_a_reader() | defaults)

    assert "slotlog wait" in commands
    assert [] == [
        (command, text) for (command, shown), text in zip(walk, printed, strict=True) if not agrees(text, shown)
    ]
    assert ["stopped"] * 2 == [json.loads(last_line(log))["event"] for log in sorted(tmp_path.glob("board-*.log"))]


def last_line(path: Path) -> str:
    """The last line of a file."""
    return path.read_text().splitlines()[-1]


def test_python_examples(tmp_path: Path) -> None:
    """The page's producers append their three events and their two to a log that is not there yet."""
    for code in re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE):
        subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    lines = typed("slotlog replay --to state --json", tmp_path, environment_of_a_reader())

    assert 5 == json.loads(lines)["partitions"][0]["next_offset"]


def test_verbs_are_all_in_the_table() -> None:
    """The page's table of verbs has every verb of the program, and no other."""
    from ops.cli import app

    table = PAGE.partition("| verb | |\n|---|---|\n")[2].partition("\n\n")[0]
    named = {name for line in table.splitlines() for name in re.findall(r"`([a-z-]+)", line.split(" | ")[0])}

    verbs = {info.name or info.callback.__name__ for info in app.registered_commands if info.callback is not None}
    assert named == verbs | {info.name for info in app.registered_groups}


def test_status_stands_on_the_first_screen() -> None:
    """The first 45 lines have the release, the server that it says it is, the bound of an event, and its error."""
    screen = " ".join(PAGE.splitlines()[:45])
    facts = [f"Version {VERSION}", f"Redis {REDIS_VERSION}", f"{RECORD_BYTES_MAX >> 20} MiB", TOO_LARGE.message]

    assert [] == [fact for fact in facts if fact not in screen]
