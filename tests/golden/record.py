"""`python -m tests.golden.record [NAME …]`: record the logs of `tests.golden.logs` that the corpus does not have.

Without a name all of them; then it also says which writing commands stand in no log.
"""

from __future__ import annotations

import sys

from tests.golden import corpus
from tests.golden.logs import LOGS, commands_without_a_log
from tests.golden.replay import replay

_DUMPED_LINES_MAX = 200
"""A log whose dump has no more lines than these has it in full beside its hash."""


def main(names: list[str]) -> int:
    """Exit code 1 when a name is unknown, or a writing command stands in less than three records of the corpus."""
    if unknown := sorted(set(names) - LOGS.keys()):
        print(f"no such log: {', '.join(unknown)}; there are {', '.join(LOGS)}", file=sys.stderr)
        return 1
    there = corpus.names()
    for name in names or LOGS:
        if name in there:
            print(f"{name}: recorded before, left as it is")
            continue
        log = LOGS[name]()
        replayed = [replay(log, partition) for partition in range(log.partitions)]
        lines = [line for each in replayed for line in each.lines]
        dump = "".join(f"{line}\n" for line in lines) if len(lines) <= _DUMPED_LINES_MAX else None
        corpus.write(name, log, [each.result._asdict() for each in replayed], dump)
        print(f"{name}: {len(log.records)} records")
    if names:
        return 0
    missing = list(commands_without_a_log(result for name in corpus.names() for result in corpus.read_results(name)))
    for name in missing:
        print(f"{name} stands in less than three records", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
