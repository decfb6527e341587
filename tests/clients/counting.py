"""Counts keys of a cluster up with redis-py, until its standard input ends.

python -m tests.clients.counting PORT PREFIX        a dot for each 50
"""

from __future__ import annotations

import json
import sys
import threading

import redis


def say(line: str) -> None:
    """Print it at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(port: int, prefix: str) -> None:
    """Count until told to end, or an error comes through."""
    ended = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    counts: dict[str, int] = {}
    errors: list[str] = []
    number = 0
    with redis.RedisCluster(host="127.0.0.1", port=port) as client:
        while not ended.is_set() and not errors:
            key = f"{prefix}:{number % 50}"
            try:
                counts[key] = int(client.incr(key))
            except Exception as error:  # noqa: BLE001 - whatever comes through is what the application sees
                errors.append(repr(error))
            number += 1
            if number % 50 == 0:
                say(".")
    say(json.dumps({"counts": counts, "errors": errors}))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
