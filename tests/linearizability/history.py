"""A history, and the checker's verdict on it (checker/main.go, built by `make histories`)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.real.process import ServerError

CHECKER: Final = Path(__file__).parents[2] / ".cache" / "linearizability" / "checker"
_KEY_SECONDS: Final = 30
_SECONDS: Final = 120


class Operation(NamedTuple):
    """One operation on one key, in the words of checker/main.go.

    `called` and `returned` are ns of one monotonic clock; `returned` is None when its outcome is unknown: it may take
    effect at any later moment, or never.
    """

    key: str
    command: str
    args: tuple[str, ...]
    reply: str | None
    called: int
    returned: int | None


class Verdict(NamedTuple):
    """How many keys there were, those that no order explains, and those that the checker had no time to decide."""

    keys: int
    illegal: tuple[str, ...]
    undecided: tuple[str, ...]


def verdict(history: Sequence[Operation], pictures: Path | None = None) -> Verdict:
    """Whether the history is linearizable, key by key; `pictures` gets a page for each key that is not.

    Raises:
        ServerError: no checker, or it refused the history.
    """
    if not CHECKER.exists():
        raise ServerError(f"no checker in {CHECKER.parent}: run `make histories`")
    command = [str(CHECKER), f"-timeout={_KEY_SECONDS}s", *([f"-pictures={pictures}"] if pictures else [])]
    lines = "".join(json.dumps(operation._asdict()) + "\n" for operation in history)
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=False, timeout=_SECONDS)
    if done.returncode != 0:
        raise ServerError(done.stderr)
    answer = json.loads(done.stdout)
    return Verdict(answer["keys"], tuple(answer["illegal"]), tuple(answer["undecided"]))
