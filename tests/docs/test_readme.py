"""`README.md` is true: the commands that it tells a reader to type are typed, and print what it shows."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Final
from uuid import uuid4

from tests.real.process import free_ports

PAGE: Final = (Path(__file__).parents[2] / "README.md").read_text()
PATIENCE_SECONDS: Final = 60
PORTS: Final = ("6379", "6380")
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


def wait_until_applied(directory: Path, environment: dict[str, str]) -> None:
    """Return once the services have applied the four events of the page, which leave three keys."""
    deadline = monotonic() + PATIENCE_SECONDS
    digest = ["slotlog", "digest"]
    while True:
        done = subprocess.run(digest, cwd=directory, env=environment, capture_output=True, text=True, check=False)
        offsets = [int(offset) for offset in re.findall(r"next offset (\d+),", done.stdout)]
        if sum(offsets) >= 4:
            return
        assert monotonic() < deadline, done.stderr
        sleep(0.2)


@contextmanager
def serving(command: str, directory: Path, environment: dict[str, str], ports: dict[str, str]) -> Iterator[None]:
    """The services that a command of the page starts, on other ports: the page's may be taken."""
    without_port = re.sub(r" --(http|resp) \S+", "", command.removesuffix(" &"))
    port = ports["6380" if "6380" in command else "6379"]
    options = ["--http", "127.0.0.1:0", "--resp", f"127.0.0.1:{port}"]
    service = subprocess.Popen([*without_port.split(), *options], cwd=directory, env=environment)
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
    applied = False
    with ExitStack() as services:
        for command, shown in steps(text):
            if command.startswith("slotlog serve"):
                services.enter_context(serving(command, directory, environment, ports))
                continue
            if command.startswith("export"):
                name, _, value = on_other_ports(command, ports).removeprefix("export ").partition("=")
                environment = {**environment, name: value}
                continue
            if command.startswith("slotlog query") and not applied:
                wait_until_applied(directory, environment)
                applied = True
            printed = typed(on_other_ports(command, ports), directory, environment)
            if not agrees(printed, shown):
                wrong.append((command, printed))
    return wrong


def test_commands_print_what_the_page_shows(tmp_path: Path) -> None:
    """A reader who types every command of the page, in order, sees what it shows."""
    assert "slotlog serve" in [command for command, _ in steps(EMBEDDED)]

    assert [] == follow(EMBEDDED, tmp_path, environment_of_a_reader())


def test_commands_with_kafka_print_what_the_page_shows(tmp_path: Path, kafka_bootstrap: str) -> None:
    """The walk through Kafka works as it stands, on another broker: two services, one data directory, all read."""
    events, _ = steps(EMBEDDED)[0]
    export, *rest, kill = KAFKA.partition("```console\n$ ")[2].partition("```")[0].split("\n$ ")
    settings = dict(word.split("=", 1) for word in export.split()[1:])
    settings |= {"SLOTLOG_LOG": f"kafka://{kafka_bootstrap}", "SLOTLOG_TOPIC": f"readme-{uuid4().hex}"}
    typed(events, tmp_path, environment_of_a_reader())

    assert kill.strip() == "kill %1 %2"
    walk = "".join(f"$ {step}\n" for step in rest)
    assert [] == follow(f"```console\n{walk}```\n", tmp_path, environment_of_a_reader() | settings)


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
    named = {name for line in table.splitlines() for name in re.findall(r"`([a-z]+)", line.split(" | ")[0])}

    verbs = {info.callback.__name__ for info in app.registered_commands if info.callback is not None}
    assert named == verbs | {info.name for info in app.registered_groups}
