"""`README.md` is true: the commands that it tells a reader to type are typed, and print what it shows."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep
from typing import Final

PAGE: Final = (Path(__file__).parents[2] / "README.md").read_text()
PATIENCE_SECONDS: Final = 60


def steps() -> list[tuple[str, str]]:
    """Each command of the console blocks with the output that stands below it."""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE):
        for text in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            heredoc = re.match(r"[^\n]*<<'END'\n.*?^END\n", text, re.DOTALL | re.MULTILINE)
            command = heredoc[0] if heredoc else text.partition("\n")[0]
            found.append((command.strip(), text[len(command) :].strip()))
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


def wait_until_applied(directory: Path, environment: dict[str, str]) -> None:
    """Return once the service has applied the four events of the page."""
    deadline = monotonic() + PATIENCE_SECONDS
    digest = ["slotlog", "digest"]
    while True:
        done = subprocess.run(digest, cwd=directory, env=environment, capture_output=True, text=True, check=False)
        if "next offset 4," in done.stdout:
            return
        assert monotonic() < deadline, done.stderr
        sleep(0.2)


def test_commands_print_what_the_page_shows(tmp_path: Path) -> None:
    """A reader who types every command of the page, in order, sees what it shows."""
    environment = environment_of_a_reader()
    service: subprocess.Popen[bytes] | None = None
    seen = []
    try:
        for command, _ in steps():
            if command == "slotlog serve":
                options = ["--http", "127.0.0.1:0"]  # the page's port may be taken
                service = subprocess.Popen([*command.split(), *options], cwd=tmp_path, env=environment)
                wait_until_applied(tmp_path, environment)
                seen.append((command, ""))
            else:
                seen.append((command, typed(command, tmp_path, environment)))
    finally:
        if service is not None:
            service.terminate()
            assert service.wait(PATIENCE_SECONDS) == 0

    assert service is not None
    assert [step for step, shown in zip(seen, steps(), strict=True) if not agrees(step[1], shown[1])] == []


def test_python_example(tmp_path: Path) -> None:
    """The page's producer appends its three events to a log that is not there yet."""
    code = PAGE.partition("```python\n")[2].partition("```")[0]
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    lines = typed("slotlog replay --to state --json", tmp_path, environment_of_a_reader())

    assert json.loads(lines)[0]["next_offset"] == 3


def test_verbs_are_all_in_the_table() -> None:
    """The page's table of verbs has every verb of the program, and no other."""
    from ops.cli import app

    table = PAGE.partition("| verb | |\n|---|---|\n")[2].partition("\n\n")[0]
    named = {name for line in table.splitlines() for name in re.findall(r"`([a-z]+)", line.split(" | ")[0])}

    assert named == {info.callback.__name__ for info in app.registered_commands if info.callback is not None}
