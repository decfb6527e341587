"""`docs/operations.md` is true: what it tells an operator to type is typed, where things are as it says."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import subprocess
from pathlib import Path
from typing import Final

import pytest

from slotlog.events import encode
from slotlog.log import Entry, open_log
from slotlog.shared.slots import partition_of, slot
from tests.docs.test_readme import agrees, environment_of_a_reader
from tests.faults.service import ServiceProcess
from tests.ops.verbs import metric, succeed, wait_for_offset

DOCS: Final = Path(__file__).parents[2] / "docs"
PAGE: Final = (DOCS / "operations.md").read_text()
_LOST: Final = PAGE.partition("\n### Lose the disk, and come back\n")[2].partition("\n### ")[0]
MENDING: Final = PAGE.partition("\n## Size\n")[2].replace(_LOST, "")
"""What test_operations_walk.py and test_operations_snapshots.py do not type."""
PARTITIONS: Final = 4
SPOILT: Final = 1
DAMAGED: Final = 2
GOOD: Final = 3


async def _append(data: Path) -> None:
    log = open_log(f"sqlite:///{data / 'log.sqlite3'}", topic="slotlog", partitions=PARTITIONS)
    await log.start()
    for partition in range(PARTITIONS):
        key = next(b"%d" % n for n in range(99) if partition_of(slot(b"%d" % n), PARTITIONS) == partition)
        await log.append([Entry(partition, slot(key).to_bytes(2, "big"), encode("INCR", [key]))] * GOOD)
    await log.append([Entry(SPOILT, None, b"\xff")])
    await log.close()


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, set[str]]:
    """A working directory where a service ran over a record that is no event, and the metrics that it had.

    The state of one partition is damaged.
    """
    directory = tmp_path_factory.mktemp("operations")
    data = directory / ".data"
    asyncio.run(_append(data))
    named = set(re.findall(r"`(slotlog_[a-z_]+)`", PAGE))
    with ServiceProcess(["--data", str(data), "--partitions", str(PARTITIONS), "--http", "127.0.0.1:0"]) as service:
        service.wait_for("started")
        for partition in range(PARTITIONS):
            wait_for_offset(service, GOOD + (partition == SPOILT), partition)
        there = {name for name in named if metric(service, name)}
        assert service.terminate() == 0
    (manifest,) = (data / str(DAMAGED)).glob("MANIFEST-*")
    manifest.write_bytes(manifest.read_bytes()[:20])
    return directory, there


def shown(text: str) -> tuple[str, list[str]]:
    """A command of a console block, and the lines below it."""
    command, *lines = text.strip().splitlines()
    return command, lines


def test_commands_print_what_the_page_shows(lived: tuple[Path, set[str]]) -> None:
    """An operator who types every command of the page, in order, sees what it shows; the damage is gone then."""
    directory, _ = lived
    blocks = re.findall(r"^```console\n\$ (.*?)^```$", MENDING, re.DOTALL | re.MULTILINE)
    steps = [shown(text) for block in blocks for text in re.split(r"^\$ ", block, flags=re.MULTILINE)]
    seen = [(command, typed(command, directory)) for command, _ in steps]

    assert len(steps) == 4
    assert [step for step, (_, lines) in zip(seen, steps, strict=True) if not agree(step[1], lines)] == []
    assert f"  {PARTITIONS} keys\n" in succeed("digest", "--data", directory / ".data")


def typed(command: str, directory: Path) -> list[str]:
    """What a command prints that must succeed. sqlite3 is Python's own: the program may not be installed here."""
    query = re.fullmatch(r'sqlite3 -readonly (\S+) "(.*)"', command)
    if query is not None:
        connection = sqlite3.connect(f"file:{directory / query[1]}?mode=ro", uri=True)
        rows = connection.execute(query[2]).fetchall()
        connection.close()
        return ["|".join(map(str, row)) for row in rows]
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=directory,
        env=environment_of_a_reader(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout.splitlines()


def agree(printed: list[str], lines: list[str]) -> bool:
    """Whether the page shows what was printed, line by line."""
    return len(printed) == len(lines) and all(map(agrees, printed, lines))


def test_metrics_exist(lived: tuple[Path, set[str]]) -> None:
    """Every metric that the page tells to watch is one of a running service."""
    named = set(re.findall(r"`(slotlog_[a-z_]+)`", PAGE))

    assert len(named) > 5
    assert lived[1] == named


def anchors(page: str) -> set[str]:
    """The headings of a page in docs/, as links name them."""
    text = (DOCS / page).read_text()
    return {
        re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")
        for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    }


def test_links_lead_somewhere() -> None:
    """Every link to another page or to a heading, and every link from other pages to a heading here, has a target."""
    links = re.findall(r"\]\(([a-z-]+\.md)?(?:#([a-z0-9-]+))?\)", PAGE)
    others = [*DOCS.glob("*.md"), DOCS.parent / "README.md"]
    here = [name for page in others for name in re.findall(r"operations\.md#([a-z0-9-]+)", page.read_text())]

    assert (True, True) == (len(links) > 50, len(here) > 5)
    assert [] == [(page, name) for page, name in links if name and name not in anchors(page or "operations.md")]
    assert set() == set(here) - anchors("operations.md")


def test_tasks_are_in_the_table_of_contents() -> None:
    """Each task of the page begins a line of the table at its top, in the order of the page."""
    table = PAGE.partition("\n## ")[0]

    assert re.findall(r"^## (.*)$", PAGE, re.MULTILINE) == re.findall(r"^- \[([^]]+)\]", table, re.MULTILINE)
