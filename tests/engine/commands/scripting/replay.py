"""A process that replays records of scripts and prints what is stored: `python -m … FILE --batch N`.

FILE               the records, as msgpack
--batch N          how many make a batch
--restart-every N  batches, after which the machine is opened anew: its runtime is a new one
--reads            scripts are read between the batches: they leave things in the runtime that events use
--decimal CHAR     what the environment must say is the decimal point
"""

from __future__ import annotations

import argparse
import locale
import sys
from contextlib import suppress
from pathlib import Path

import msgpack

from engine.apply.machine import Machine, Record
from engine.errors import CommandError
from engine.scripts import runtime
from tests.engine.commands.scripting.script_log import INSTRUCTIONS_MAX, OWN_BYTES, SHARED_BYTES
from tests.engine.harness import FINGERPRINT, HOME, new_store, records_of


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("records", type=Path)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--restart-every", type=int, default=1 << 62)
    parser.add_argument("--reads", action="store_true")
    parser.add_argument("--decimal", default=".")
    options = parser.parse_args()
    locale.setlocale(locale.LC_NUMERIC, "")
    if (found := locale.localeconv()["decimal_point"]) != options.decimal:
        sys.exit(f"the environment's decimal point is {found!r}")
    locale.setlocale(locale.LC_NUMERIC, "C")  # as it is where nobody asks
    runtime.INSTRUCTIONS_MAX = INSTRUCTIONS_MAX  # type: ignore[misc]
    runtime.SHARED_MEMORY_BYTES, runtime.MEMORY_BYTES_MAX = SHARED_BYTES, OWN_BYTES  # type: ignore[misc]
    records = [tuple(record) for record in msgpack.unpackb(options.records.read_bytes())]
    _replay(records, options.batch, options.restart_every, reads=options.reads)


def _replay(records: list[Record], batch: int, restart_every: int, *, reads: bool) -> None:
    store = new_store()
    machine = Machine(store, HOME)
    for turn in range(len(records)):
        left = records[machine.next_offset :][:batch]
        if not left:
            break
        if turn % restart_every == 0:
            machine = Machine(store, HOME)
        machine.apply(left, machine.next_offset)
        machine.commit(FINGERPRINT)
        if reads and left[0][2] == b"EVAL":
            with suppress(CommandError):
                machine.read(b"EVAL_RO", left[0][3])
    for family, key, value in records_of(store):
        sys.stdout.write(f"{family} {key.hex()} {value.hex()}\n")


if __name__ == "__main__":
    main()
