"""`slotlog/commands.py`: the table of commands that clients have, made from the engine's registry."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Final

import engine.commands  # noqa: F401 - fills the registry
from engine.commands.registry import SPECS
from slotlog.shared.signature import Signature

TABLE: Final = Path(__file__).parents[2] / "slotlog" / "commands.py"

_HEAD: Final = '''\
"""The signature of every command, so that a client need not import the engine.

Made by `make docs` from the engine's registry: change the command there, not here.
"""

from __future__ import annotations

from typing import Final

from slotlog.shared.signature import Signature

COMMANDS: Final[dict[bytes, Signature]] = {
    signature.name: signature
    for signature in (
'''


def rendered() -> str:
    """The module as the registry has it now."""
    own = [spec for spec in SPECS.values() if spec.handler.__module__.startswith("engine.commands.")]
    rows = [f"        {_call(spec)},\n" for spec in sorted(own, key=lambda spec: spec.name)]
    source = f"{_HEAD}{''.join(rows)}    )\n}}\n"
    formatted = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--stdin-filename", TABLE, "-"],
        input=source,
        capture_output=True,
        text=True,
        check=True,
    )
    return formatted.stdout


def _call(signature: Signature) -> str:
    """The expression that makes it; what is as by default is left out."""
    words = []
    for field in fields(Signature):
        value = getattr(signature, field.name)
        default = field.default_factory() if field.default_factory is not MISSING else field.default
        if value != default:
            words.append(f"{field.name}={value!r}")
    return f"Signature({', '.join(words)})"
