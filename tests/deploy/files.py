"""The files under test, as the real Compose binary and YAML read them."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).parents[2]


@cache
def compose(*others: str) -> dict[str, Any]:
    """docker-compose.yml with all profiles, as Compose understands it: anchors merged, short forms written out.

    Args:
        others: files beside it that change it.
    """
    files = [word for name in others for word in ("--file", str(ROOT / name))]
    return json.loads(compose_config(*files, "--profile", "*", format_="json"))  # type: ignore[no-any-return]


def compose_config(*options: str, format_: str = "yaml") -> str:
    """What `docker compose config` prints; AssertionError with its words when it refuses the file."""
    binary = Path(sys.executable).with_name("docker-compose")
    command = [str(binary), "--file", str(ROOT / "docker-compose.yml"), *options, "config", "--format", format_]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (0, "") == (done.returncode, done.stderr)
    return done.stdout


def manifests() -> dict[str, dict[str, Any]]:
    """Every document of deploy/kubernetes by kind and name."""
    documents = [
        document
        for path in sorted((ROOT / "deploy" / "kubernetes").glob("*.yaml"))
        for document in yaml.safe_load_all(path.read_text())
    ]
    return {f"{document['kind']}/{document['metadata']['name']}": document for document in documents}
