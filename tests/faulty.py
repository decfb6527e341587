"""A planted bug: a command that leaves something impossible, which is found before it is written."""

from __future__ import annotations

from typing import Final

import pytest

from engine.apply.machine import Machine
from engine.batch.transaction import Transaction

POISON: Final = b"poison"
REASON: Final = "InvariantError: a string of version 0 is to die at -5"


def plant_bug(patch: pytest.MonkeyPatch) -> None:
    """Let a string with the value `POISON` die before time began."""
    in_python = property(lambda _: None, lambda machine, path: machine.__dict__.update(hot_path=path))
    patch.setattr(Machine, "hot_path", in_python, raising=False)  # what is compiled has no such bug
    real = Transaction.put_string

    def put_string(tx: Transaction, name: bytes, value: bytes, expire_ms: int = 0) -> None:
        real(tx, name, value, -5 if value == POISON else expire_ms)

    patch.setattr(Transaction, "put_string", put_string)
