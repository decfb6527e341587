"""The wheel and the sdist of this checkout, and environments that contain only what the wheel asks for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterable, Mapping
from email import message_from_bytes
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Final, NamedTuple

from packaging.requirements import Requirement

from tests.deploy.files import ROOT

PACKAGES: Final = ("engine", "ingest", "ops", "resp", "slotlog")
_BESIDE: Final = ("CHANGELOG.md", "LICENSE", "MANIFEST.in", "README.md", "pyproject.toml")


class Built(NamedTuple):
    """What there is to install.

    Attributes:
        sdist: of the checkout.
        wheel: made from that sdist, as pip does where it finds no wheel.
    """

    sdist: Path
    wheel: Path


def sources() -> list[Path]:
    """Every file of the packages that is in the repository, relative to its root."""
    listed = subprocess.run(["git", "ls-files", *PACKAGES], cwd=ROOT, capture_output=True, text=True, check=True)
    return [Path(line) for line in listed.stdout.splitlines() if (ROOT / line).exists()]


def build(place: Path) -> Built:
    """Build both, in copies: the checkout stays as it is."""
    checkout = place / "checkout"
    for name in [*sources(), *map(Path, _BESIDE)]:
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, checkout / name)
    _, sdist = _built("build_sdist", checkout, place)
    shutil.unpack_archive(sdist, place / "unpacked")  # Python 3.11.2, Debian's, has no filter for it yet
    (unpacked,) = (place / "unpacked").iterdir()
    return Built(sdist, build_wheel(unpacked, place)[1])


def build_wheel(source: Path, target: Path, variables: Mapping[str, str] = os.environ) -> tuple[str, Path]:
    """The wheel of these sources, in `target`, and what was said while it was made."""
    return _built("build_wheel", source, target, variables)


def _built(hook: str, source: Path, target: Path, variables: Mapping[str, str] = os.environ) -> tuple[str, Path]:
    """What a hook of the build backend says and makes, as any front end calls it."""
    program = f"import sys; from setuptools import build_meta; build_meta.{hook}(sys.argv[1])"
    before = set(target.iterdir())
    done = subprocess.run(
        [sys.executable, "-c", program, target], cwd=source, env=variables, capture_output=True, text=True, check=True
    )
    (made,) = set(target.iterdir()) - before
    return done.stdout + done.stderr, made


class Environment:
    """A virtual environment with the wheel and the distributions that its metadata asks for, and nothing else.

    No network is needed: these distributions are links to those of the environment that the tests run in.

    Args:
        place: of the environment, which is made.
        wheel: what is installed.
        extras: of the wheel.

    Attributes:
        programs: where its Python and console scripts are.
        distributions: the names of what is in it, the wheel's own left out.
    """

    def __init__(self, place: Path, wheel: Path, *extras: str) -> None:
        venv.create(place, with_pip=False, symlinks=True)
        self.programs = place / "bin"
        (packages,) = place.glob("lib/python3*/site-packages")
        needed = closure(requirements_of(wheel), extras)
        self.distributions = sorted(needed)
        for each in needed.values():
            _link(each, packages)
        install = ["install", "--quiet", "--no-index", "--no-deps", "--no-compile", wheel]
        for words in (install, ["check"]):
            subprocess.run([sys.executable, "-m", "pip", "--python", self.programs / "python", *words], check=True)

    def run(self, program: str, *words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run one of its programs with words, away from the checkout."""
        command = [self.programs / program, *words]
        return subprocess.run(command, cwd=cwd, env={}, capture_output=True, text=True, check=False)


def requirements_of(wheel: Path) -> list[Requirement]:
    """What the wheel's metadata asks for, with the markers of its extras."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        lines = message_from_bytes(archive.read(name)).get_all("Requires-Dist", [])
    return [Requirement(line) for line in lines]


def closure(requirements: Iterable[Requirement], extras: Iterable[str]) -> dict[str, Distribution]:
    """The distributions that satisfy requirements, with all that those require in turn.

    Raises:
        ValueError: an installed version is none that is asked for.
        PackageNotFoundError: one is not installed here.
    """
    found: dict[str, Distribution] = {}
    waiting = [(each, frozenset(extras)) for each in requirements]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        requirement, wanted = waiting.pop()
        marker = requirement.marker
        if marker is not None and not any(marker.evaluate({"extra": extra}) for extra in ("", *wanted)):
            continue
        name, inner = requirement.name.lower().replace("_", "-"), frozenset(requirement.extras)
        if (name, inner) in seen:
            continue
        seen.add((name, inner))
        found[name] = distribution(name)
        if not requirement.specifier.contains(found[name].version, prereleases=True):
            raise ValueError(f"{requirement} is not satisfied by {found[name].version}")
        waiting += [(Requirement(line), inner) for line in found[name].requires or ()]
    return found


def _link(installed: Distribution, packages: Path) -> None:
    """Make a distribution's files visible in another environment, console scripts left out."""
    for top in {file.parts[0] for file in installed.files or () if file.parts[0] != ".."}:
        link = packages / top
        if not link.exists():
            link.symlink_to(Path(str(installed.locate_file(top))).resolve())
