"""The scenario of every client, and its expected observations.

A client program (Python, Node, Go, Java) does the steps below on keys that begin with a prefix of its own, and
reports what it saw by the names in quotes. How a library shows a reply (a map, a list of pairs, an exception) is
its own business: the programs bring it into the form that stands here.

A client that waits in a blocking pop cannot push for itself, so `Pusher` stands by: it pushes once it sees the client
blocked.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any, Self

import redis

POLL_S = 0.01

STANDALONE: dict[str, Any] = {
    # SET text "Grüße, Ada", then GET it, and GET a key that is not there
    "text": "Grüße, Ada",
    "missing": None,
    # SET bytes 00 FF 0D 0A, then GET it, in hexadecimal
    "bytes": "00ff0d0a",
    # HSET hash name Ada born 1815, then HGETALL
    "hash": {"name": "Ada", "born": "1815"},
    # SADD set x y x, then SMEMBERS, sorted
    "members": ["x", "y"],
    # ZADD zset 1.5 first 2 second, then ZRANGE 0 -1 WITHSCORES
    "ranking": [["first", 1.5], ["second", 2]],
    # EXPIREAT text 4102444800, then EXPIRETIME
    "expires_at": 4102444800,
    # LPUSH text x
    "error": "WRONGTYPE Operation against a key holding the wrong kind of value",
    # a pipeline of 1,000 INCR counter: the replies added up, and the last one
    "pipeline": [500500, 1000],
    # MULTI, INCRBY number 40, INCRBY number 2, GET number, EXEC
    "transaction": [40, 42, "42"],
    # WATCH number; MULTI, INCR number, EXEC
    "watch_kept": [43],
    # WATCH number; another connection's SET number 1; MULTI, INCR number, EXEC; what is shown is GET number
    "watch_lost": "1",
    # BLPOP queue, with the element that `Pusher` pushes meanwhile, and BLPOP of an empty key with a timeout of 0.1 s
    "blocking_pop": "job",
    "timed_out_pop": None,
    # SUBSCRIBE channel, then another connection's PUBLISH channel hello
    "message": "hello",
    # SCAN MATCH prefix*, without prefix, sorted
    "scanned": ["bytes", "counter", "hash", "number", "set", "text", "zset"],
}

CLUSTER: dict[str, Any] = {
    # SET 0 0 … SET 199 199, which both nodes get some of, then GET each: the values added up
    "sum": 19900,
    # INCR of 100 different keys in a pipeline, each once: the replies added up
    "pipeline": 100,
    # MULTI, INCRBY {tag}number 40, INCRBY {tag}number 2, GET {tag}number, EXEC
    "transaction": [40, 42, "42"],
    # BLPOP {tag}queue, with the element that `Pusher` pushes meanwhile
    "blocking_pop": "job",
}


CACHED: dict[str, Any] = {
    # another connection's SET key 1, then a GET of a client with a cache
    "read": "1",
    # GET once more, and whether its value was in the cache
    "kept": ["1", True],
    # another connection's SET key 2, then GET until it gives that
    "changed": "2",
    # the client's own SET key 3, then GET until it gives that
    "own": "3",
    # another connection's DEL key, then GET until there is nothing
    "deleted": None,
}


class Pusher:
    """Pushes `job` to a list once a client is blocked on the server, or on one of the servers of a cluster.

    Used as a context manager around the client's run.
    """

    def __init__(self, ports: list[int], key: str, db: int = 0) -> None:
        self._ports = ports
        self._key = key
        self._db = db
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._push)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._thread.join()

    def _push(self) -> None:
        servers = [redis.Redis(port=port, db=self._db) for port in self._ports]
        while not self._stopped.wait(POLL_S):
            for server in servers:
                if server.info("clients")["blocked_clients"]:
                    server.rpush(self._key, "job")
                    self._stopped.set()
        for server in servers:
            server.close()
