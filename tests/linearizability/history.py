"""A history, and the checker's verdict on it (checker/main.go, built by `make histories`)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
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
    lines = "".join(json.dumps(operation._asdict()) + "\n" for operation in narrowed(history))
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=False, timeout=_SECONDS)
    if done.returncode != 0:
        raise ServerError(done.stderr)
    answer = json.loads(done.stdout)
    return Verdict(answer["keys"], tuple(answer["illegal"]), tuple(answer["undecided"]))


def narrowed(history: Sequence[Operation]) -> list[Operation]:
    """The history, with less room for each XADD of unknown outcome: orders are as many, and the search is shorter.

    Each value is added once, and no entry is deleted. So an XADD took effect before the first reply with its value had
    come, and not before an XRANGE was called whose reply lacks it. Without this the checker tries each of them at each
    moment, and a few of them take it minutes.
    """
    shown: dict[tuple[str, str], int] = {}
    ranges: dict[str, list[tuple[int, set[str]]]] = {}
    for operation in history:
        if operation.returned is None or operation.command not in {"XRANGE", "XREADGROUP"}:
            continue
        values = set((operation.reply or "").split(","))
        for value in values:
            place = operation.key, value
            shown[place] = min(operation.returned, shown.get(place, operation.returned))
        if operation.command == "XRANGE":
            ranges.setdefault(operation.key, []).append((operation.called, values))
    return [
        _narrowed(operation, shown, ranges) if operation.command == "XADD" and operation.returned is None else operation
        for operation in history
    ]


def _narrowed(
    operation: Operation,
    shown: Mapping[tuple[str, str], int],
    ranges: Mapping[str, Sequence[tuple[int, set[str]]]],
) -> Operation:
    (value,) = operation.args
    lacking = [called for called, values in ranges.get(operation.key, []) if value not in values]
    later = operation._replace(called=max(operation.called, *lacking, 0))
    returned = shown.get((operation.key, value))
    if returned is None:
        return later
    if later.called > returned:  # it was there, and is gone: the checker says so
        return operation
    return later._replace(reply="OK", returned=returned)
