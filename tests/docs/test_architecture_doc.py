"""`docs/architecture.md` names what is there: the rooms, in the order in which they may import one another."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
PACKAGES = ("slotlog", "engine", "ingest", "resp", "ops")


def section(begin: str, end: str) -> str:
    """What stands between two texts of the page."""
    assert begin in PAGE
    assert end in PAGE.partition(begin)[2]
    return PAGE.partition(begin)[2].partition(end)[0]


def floors(package: str) -> list[set[str]]:
    """The rooms of a package from the top down, as the import contract has them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = [contract for contract in contracts if contract.get("containers") == [package]]
    return [set(layer.split(" : ")) for layer in contract["layers"]]


def rooms(package: str) -> set[str]:
    """The folders and modules at the top of a package."""
    return {
        path.stem
        for path in (ROOT / package).iterdir()
        if path.stem != "__init__" and (path.suffix == ".py" or (path / "__init__.py").exists())
    }


@pytest.mark.parametrize("package", PACKAGES)
def test_every_room_has_its_row(package: str) -> None:
    """The table of a package names each room once, in the order of the floors, and its files are in that room."""
    table = section(f"In `{package}/`, from the top down", "\n\n" + ("In `" if package != "ops" else "## "))
    named = [
        (room.removesuffix(".py").rstrip("/"), text)
        for head, text in re.findall(r"^\| (`.*?) \| (.*) \|$", table, re.MULTILINE)
        for room in re.findall(r"`([\w./]+)`", head)
    ]
    order = {room: at for at, floor in enumerate(floors(package)) for room in floor}
    gone = [
        name
        for room, text in named
        for name in re.findall(r"`([a-z_]+(?:\.py|/))`", text)
        if not (ROOT / package / room / name).exists()
    ]
    placed = [order[room] for room, _ in named if room in order and room not in {"errors", "limits", "host"}]

    assert Counter(rooms(package) | ({"page"} if package == "ops" else set())) == Counter(room for room, _ in named)
    assert [] == gone
    assert sorted(placed) == placed


def test_the_drawing_is_whole() -> None:
    """The drawing of the rooms has a row for each package, with every folder of it."""
    drawing = section("## The rooms", "| package |")
    rows = {row.split()[0]: set(row.split()[1:]) for row in drawing.splitlines() if row.startswith("  ")}

    for package in PACKAGES:
        folders = {room for room in rooms(package) if (ROOT / package / room).is_dir()}
        assert folders <= rows[package]
        assert rows[package] <= rooms(package)


@pytest.mark.parametrize(
    ("begin", "end"),
    [("## An event, from the log", "## A client's SET"), ("## A client's SET", "## The idea")],
)
def test_walks_name_each_room_once(begin: str, end: str) -> None:
    """Each of the two walks names rooms that are there, none of them twice."""
    named = re.findall(r"`((?:engine|slotlog|ingest|resp|ops)/\w+)(?:/|\.py)`", section(begin, end))

    assert len(named) > 8
    assert [] == [room for room, times in Counter(named).items() if times > 1]
    assert [] == [room for room in named if room.partition("/")[2] not in rooms(room.partition("/")[0])]
