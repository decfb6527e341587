"""Counts keys of a cluster up with redis-py, until its standard input ends.

python -m tests.clients.counting PORT PREFIX        a dot for each 50
"""

from __future__ import annotations

import json
import sys
import threading

import redis
from redis.backoff import ConstantBackoff
from redis.retry import Retry

PATIENCE = Retry(ConstantBackoff(0.1), 300)
"""Attempts: a worker that is started again takes some seconds."""


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
    with redis.RedisCluster(host="127.0.0.1", port=port, retry=PATIENCE) as client:
        while not ended.is_set() and not errors:
            key = f"{prefix}:{number % 20}"
            try:
                counts[key] = int(client.incr(key))
            except redis.RedisError as error:
                errors.append(repr(error))
            number += 1
            if number % 50 == 0:
                say(".")
    say(json.dumps({"counts": counts, "errors": errors}))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
