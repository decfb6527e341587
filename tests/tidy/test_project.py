"""pyproject.toml, the locks, the Makefile and the documents fit each other."""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.tidy.source import EVERYTHING, PRODUCT, ROOT, imported_names, modules

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
DEPENDENCIES = [Requirement(line) for line in PROJECT["project"]["dependencies"]]
EXTRAS = {
    name: [Requirement(line) for line in lines] for name, lines in PROJECT["project"]["optional-dependencies"].items()
}
SERVER = DEPENDENCIES + EXTRAS["server"]
TRACED = SERVER + EXTRAS["tracing"]
CHANGES = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
"""The kinds of change of Keep a Changelog."""

LOCKED = re.compile(r"^([a-z0-9._-]+)==([^ ;\\]+)", re.MULTILINE)

ELSEWHERE = {"cacheops": "django-cacheops", "redis_lock": "python-redis-lock", "redbeat": "celery-redbeat"}
"""Packages that are installed for the applications alone, by what is imported of them."""


def group(name: str) -> list[Requirement]:
    """The requirements of one dependency group, those of included groups with it."""
    lines: list[Requirement] = []
    for entry in PROJECT["dependency-groups"][name]:
        lines += [Requirement(entry)] if isinstance(entry, str) else group(entry["include-group"])
    return lines


def locked(name: str) -> dict[str, str]:
    """Versions in requirements/NAME.txt by package."""
    return dict(LOCKED.findall((ROOT / "requirements" / f"{name}.txt").read_text()))


@pytest.mark.parametrize(
    ("lock", "requirements"),
    [
        ("run", SERVER),
        ("dev", TRACED + group("dev")),
        ("bench", SERVER + group("bench")),
        ("applications", SERVER + group("applications")),
    ],
)
def test_locks_fit_pyproject(lock: str, requirements: list[Requirement]) -> None:
    """Each requirement is locked at a version that it allows; `make lock` mends it."""
    versions = locked(lock)
    misfits = [
        f"{requirement} is locked as {version}"
        for requirement in requirements
        if (version := versions.get(canonicalize_name(requirement.name))) is None
        or version not in requirement.specifier
    ]

    assert [] == misfits


@pytest.mark.parametrize("lock", ["run", "dev", "build", "bench", "applications"])
def test_locked_packages_have_hashes(lock: str) -> None:
    """No package is installed that is not, byte for byte, the one that was locked."""
    text = (ROOT / "requirements" / f"{lock}.txt").read_text()
    entries = [entry for entry in re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE) if "==" in entry]

    assert [] == [entry for entry in entries if "--hash=sha256:" not in entry]


def test_development_runs_what_users_run() -> None:
    """The locks of users and of developers agree on every package that both have."""
    run, dev = locked("run"), locked("dev")

    assert run == {name: dev.get(name) for name in run}


@pytest.mark.parametrize(
    ("packages", "allowed"),
    [
        (("slotlog",), DEPENDENCIES + EXTRAS["tracing"] + EXTRAS["sealing"]),
        (PRODUCT, TRACED + EXTRAS["sealing"]),
        (EVERYTHING, TRACED + group("dev") + group("bench") + group("applications")),
    ],
    ids=["client", "product", "everything"],
)
def test_imports_are_declared(packages: tuple[str, ...], allowed: list[Requirement]) -> None:
    """Whatever is imported is in pyproject.toml by name, not just there because something else needs it."""
    names = {canonicalize_name(requirement.name) for requirement in allowed}
    tops = {name.partition(".")[0] for module in modules(*packages) for name in imported_names(module.tree)}
    distributions = packages_distributions()
    undeclared = [
        top
        for top in sorted(tops - sys.stdlib_module_names - set(EVERYTHING))
        if names.isdisjoint({canonicalize_name(name) for name in distributions.get(top, [ELSEWHERE.get(top, top)])})
    ]

    assert [] == undeclared


@pytest.mark.parametrize("document", [".ci/run", "README.md", "CONTRIBUTING.md"])
def test_documents_name_targets_that_exist(document: str) -> None:
    """Every `make TARGET` that a reader is told to type is in the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:^|`|\$ )make ([a-z-]+)", (ROOT / document).read_text(), re.MULTILINE))

    assert set() != named
    assert set() == named - targets


def test_relative_links_lead_somewhere() -> None:
    """Every link between the documents names a file that is there."""
    documents = [
        *ROOT.glob("*.md"),
        *(path for top in ("docs", "dashboards", *EVERYTHING) for path in (ROOT / top).rglob("*.md")),
    ]
    broken = [
        f"{document.relative_to(ROOT)}: {target}"
        for document in documents
        for target in re.findall(r"\]\(([^)#\s]+)", document.read_text())
        if "://" not in target and not (document.parent / target).exists()
    ]

    assert [] == broken


def test_changelog_keeps_its_form() -> None:
    """It begins with what is unreleased, names only kinds of change that there are, and the README leads to it."""
    text = (ROOT / "CHANGELOG.md").read_text()
    versions = re.findall(r"^## (.*)$", text, re.MULTILINE)

    assert "Unreleased" == versions[0]
    assert [] == [each for each in versions[1:] if not re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d{2}-\d{2}", each)]
    assert set() == set(re.findall(r"^### (.*)$", text, re.MULTILINE)) - CHANGES
    assert "(CHANGELOG.md)" in (ROOT / "README.md").read_text()


def test_paths_in_prose_exist() -> None:
    """Every Python file and page of ours that a document, comment or docstring names is there."""
    named = re.compile(rf"(?<![\w/.-])((?:{'|'.join((*EVERYTHING, 'docs'))})/[\w/-]*\w\.(?:py|md))\b")
    texts = {module.place: module.text for module in modules(*EVERYTHING)}
    texts |= {str(page.relative_to(ROOT)): page.read_text() for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]}
    missing = sorted(
        f"{place}: {name}"
        for place, text in texts.items()
        for name in named.findall(text)
        if not (ROOT / name).exists()
    )

    assert [] == missing
