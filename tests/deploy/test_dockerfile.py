"""The Dockerfile: linted, and its steps taken without an engine."""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from ops.version import VERSION
from tests.deploy.files import ROOT, compose

DOCKERFILE: Final = (ROOT / "Dockerfile").read_text()
IGNORED: Final = (ROOT / ".dockerignore").read_text()


class Step(NamedTuple):
    """One instruction."""

    name: str
    text: str


def stages() -> list[list[Step]]:
    """The instructions of each stage, continued lines joined."""
    joined = re.sub(r"\\\n", "", re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.MULTILINE))
    steps = [Step(*line.split(None, 1)) for line in joined.splitlines() if line.strip()]
    begins = [index for index, step in enumerate(steps) if step.name == "FROM"]
    return [steps[begin:end] for begin, end in zip(begins, [*begins[1:], len(steps)], strict=True)]


def texts(stage: list[Step], name: str) -> list[str]:
    """What the instructions of that name say."""
    return [step.text for step in stage if step.name == name]


def copies(stage: list[Step]) -> list[tuple[list[str], str]]:
    """Sources and target of each COPY from the checkout."""
    words = [text.split() for text in texts(stage, "COPY") if not text.startswith("--from")]
    return [(sources, target) for *sources, target in words]


def test_hadolint_has_nothing_to_say() -> None:
    """The linter finds no fault."""
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([hadolint, ROOT / "Dockerfile"], capture_output=True, text=True, check=False)

    assert (0, "") == (done.returncode, done.stdout)


def test_the_image_is_small_and_safe() -> None:
    """Two stages, the first with a compiler; the last one installs nothing, and has a user and a health check."""
    build, final = stages()

    assert ["python:3.11.14-bookworm AS build"] == texts(build, "FROM")
    assert ["python:3.11.14-slim-bookworm"] == texts(final, "FROM")
    assert re.search(r"\b(pip|apt-get|curl|wget)\b", "".join(texts(final, "RUN"))) is None
    assert texts(final, "COPY") == ["--from=build /opt/slotlog /opt/slotlog"]
    assert texts(final, "USER") == [compose()["services"]["slotlog-0"]["user"]]
    assert len(texts(final, "HEALTHCHECK")) == 1
    assert [text for text in texts(build, "RUN") if "install" in text and "requirements" in text] == [
        text for text in texts(build, "RUN") if text.count("--require-hashes") == text.count("--requirement ") > 0
    ]


def test_every_copied_path_is_there_and_sent() -> None:
    """What COPY names is in the checkout, and .dockerignore keeps back everything but that."""
    named = {source.partition("/")[0] for sources, _ in copies(stages()[0]) for source in sources}
    lines = [line for line in IGNORED.splitlines() if line and not line.startswith("#")]
    sent = {line.removeprefix("!") for line in lines if line.startswith("!")}

    assert lines[0] == "*"
    assert named == sent
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_steps_lead_to_a_program(tmp_path: Path) -> None:
    """The build stage's own commands, in other directories, make an environment where `slotlog` runs, without pip."""
    build, _ = stages()
    place, work = tmp_path / "opt", tmp_path / "build"
    work.mkdir()
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "base"], check=True)  # the base image's Python with pip
    path = f"{tmp_path}/base/bin{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PIP_NO_COMPILE": "1"}  # half of the time, for what is thrown away
    for step in build:
        if step.name == "COPY":
            *sources, target = step.text.split()
            _copy(sources, work / target)
        elif step.name == "RUN":
            # With the cache of downloads: what it would keep small is the image.
            command = step.text.replace("/opt/", f"{place}/").replace("--no-cache-dir ", "")
            done = subprocess.run(
                ["bash", "-ec", command], cwd=work, env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
    programs = place / "slotlog" / "bin"
    said = subprocess.run([programs / "slotlog", "version", "--json"], cwd=place, capture_output=True, check=True)
    (packages,) = place.glob("slotlog/lib/python3*/site-packages")

    facts = json.loads(said.stdout)
    assert (VERSION, "compiled") == (facts["slotlog"], facts["hot_path"])
    assert (packages / "ops/demo/flights-2013-01.csv.gz").is_file()  # what is no Python goes along too
    assert not list(programs.glob("pip*"))


def _copy(sources: list[str], target: Path) -> None:
    for source in sources:
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, target, ignore=lambda _, names: fnmatch.filter(names, "__pycache__"))
        else:
            into = target / Path(source).name if len(sources) > 1 or target.is_dir() else target
            into.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / source, into)
