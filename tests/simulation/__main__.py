"""`python -m tests.simulation SEED [--seeds N] [--steps N] [--plant BUG]`: run seeds, print each verdict."""

from __future__ import annotations

import argparse
import sys

from tests.simulation.plants import PLANTS
from tests.simulation.run import STEPS, run_seed


def main(arguments: list[str]) -> int:
    """Exit code 1 when a seed failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description="Simulated runs of slotlog.")
    parser.add_argument("seed", type=int, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1, help="how many, one after the other")
    parser.add_argument("--steps", type=int, default=STEPS, help="events a seed")
    parser.add_argument("--plant", choices=sorted(PLANTS), default="", help="a bug that must be found")
    options = parser.parse_args(arguments)
    failed = 0
    for seed in range(options.seed, options.seed + options.seeds):
        verdict = run_seed(seed, options.steps, options.plant)
        print(
            f"seed {seed}: {verdict.records} records, {verdict.lives} lives, {verdict.met['dead letter']} dead letters,"
            f" digest {verdict.digest[:16] or '-'}"
        )
        for failure in verdict.failures:
            print(f"  FAILED {failure}")
        failed += bool(verdict.failures)
    if failed:
        plant = f" --plant {options.plant}" if options.plant else ""
        again = f"python -m tests.simulation SEED --steps {options.steps}{plant}"
        print(f"{failed} of {options.seeds} seeds failed; again: {again}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
