"""Random records for the engine's tests, and the rules that every state must keep, whatever led to it."""

from __future__ import annotations

from collections import Counter
from random import Random

from engine.encoding import pack_u64
from engine.graveyard import parse_grave
from engine.layouts.base import LIST, STRING, ZSET, Metadata
from engine.layouts.neokv import NeoKV
from engine.limits import DEDUP_WINDOW_MS
from engine.machine import Record
from engine.store.base import Store
from engine.system import open_position
from tests.engine.harness import HOME, NOW_MS, family

KEYS = [b"a", b"b", b"c", b"{tag}d", b"", b"\x00\xff"]
FIELDS = [b"f", b"g", b"h", b"", b"\xff"]
NUMBERS = [b"1", b"-1", b"2.5", b"0", b"-0", b"inf", b"9223372036854775807", b"1e3", b"x"]
COMMANDS = [
    *(b"SET K V", b"SET K V PX T", b"SET K V KEEPTTL", b"SET K V NX GET", b"GETSET K V", b"GETDEL K", b"GETEX K PX T"),
    *(b"APPEND K V", b"SETRANGE K 3 V", b"INCR K", b"INCRBYFLOAT K N", b"MSET K V K V", b"MSETNX K V K V", b"GET K"),
    *(b"HSET K F V", b"HSET K F V F V F V", b"HDEL K F F", b"HINCRBY K F N", b"HINCRBYFLOAT K F N", b"HGETALL K"),
    *(b"LPUSH K V V", b"RPUSH K V V V", b"LPOP K", b"RPOP K 2", b"LSET K -1 V", b"LTRIM K 1 -2", b"RPUSHX K V"),
    *(b"SADD K F F", b"SREM K F F", b"SPOP K", b"SPOP K 2", b"SMEMBERS K"),
    *(b"ZADD K N F N F", b"ZADD K GT CH N F", b"ZINCRBY K N F", b"ZREM K F F", b"ZPOPMIN K", b"ZPOPMAX K 2"),
    *(b"DEL K", b"UNLINK K K", b"PEXPIRE K T", b"PEXPIRE K T NX", b"EXPIRE K -1", b"PERSIST K", b"TYPE K", b"TICK"),
]
"""Commands with places for a key, a value, a field, a number and a time to live."""

RARE = [b"FLUSHDB", b"FLUSHALL", b"NOSUCH K", b"GET", b"DBSIZE", b"SET K V SYNTAX"]


def random_records(seed: int, count: int, *, flushes: bool = True) -> list[Record]:
    """`count` records of all kinds: transactions, ids sent again, times that jump, and what cannot be applied."""
    random = Random(seed)
    rare = [line for line in RARE if flushes or not line.startswith(b"FLUSH")]
    records: list[Record] = []
    offset, at_ms = 0, NOW_MS
    for _ in range(count):
        offset += random.choice([1, 1, 1, 2])
        at_ms += random.choice([0, 0, 1, 3, 20, -2]) if random.random() < 0.99 else DEDUP_WINDOW_MS // 2
        event_id = b"id%d" % random.randrange(30) if random.random() < 0.2 else None
        time_ms = at_ms if random.random() < 0.99 else -1
        name, args = b"EXEC", [_command(random, rare) for _ in range(random.randrange(4))]
        if random.random() < 0.9:
            name, *args = _command(random, rare)  # type: ignore[assignment] # the arguments of one command
        records.append((offset, time_ms, name, args, random.choice([0, 0, 0, 1, 2]), event_id, None))
    return records


def broken_rules(store: Store) -> list[str]:
    """What is wrong with a state: sizes, indexes, expiry entries, graves and counts must all agree with its records."""
    layout = NeoKV(HOME.partition)
    keys = {key: layout.parse_metadata(value) for key, value in family(store, layout.metadata_cf).items()}
    data, scores = family(store, layout.data_cf), family(store, layout.score_cf)
    broken, live = [], Counter[str]()
    for key, metadata in keys.items():
        if metadata.type == STRING:
            continue
        prefix = layout.subkey_prefix(key, metadata.version)
        content = {record[len(prefix) :]: value for record, value in data.items() if record.startswith(prefix)}
        index = sorted(record[len(prefix) :] for record in scores if record.startswith(prefix))
        live["data"] += len(content)
        live["scores"] += len(index)
        broken += _broken_collection(key, metadata, content, index)
    expected = sorted(pack_u64(metadata.expire_ms) + key for key, metadata in keys.items() if metadata.expire_ms)
    if expected != list(family(store, "expiry")):
        broken.append("the expiry entries are not those of the keys with a time to live")
    broken += _broken_counts(store, layout, keys)
    graves = [parse_grave(record, value) for record, value in family(store, "graveyard").items()]
    prefixes = [layout.subkey_prefix(grave.metadata_key, grave.version) for grave in graves]
    orphans = Counter({"data": len(data), "scores": len(scores)}) - live
    buried = Counter({
        "data": sum(record.startswith(prefix) for prefix in prefixes for record in data),
        "scores": sum(record.startswith(prefix) for prefix in prefixes for record in scores),
    })  # fmt: skip
    if orphans != +buried:
        broken.append(f"orphans {orphans}, of which graves name {buried}")
    return broken


def _command(random: Random, rare: list[bytes]) -> list[bytes]:
    words = random.choice(COMMANDS if random.random() < 0.97 else rare).split(b" ")
    places = {
        b"K": KEYS,
        b"F": FIELDS,
        b"N": NUMBERS,
        b"V": [b"", b"v", b"7", b"x" * 60, b"\xff\x00"],
        b"T": [b"1", b"5", b"40", b"100000"],
    }
    return [words[0], *(random.choice(places[word]) if word in places else word for word in words[1:])]


def _broken_collection(key: bytes, metadata: Metadata, content: dict[bytes, bytes], index: list[bytes]) -> list[str]:
    broken = []
    if metadata.size != len(content) or not content:
        broken.append(f"{key!r} has size {metadata.size} and {len(content)} subkeys")
    if metadata.type == LIST and [pack_u64(at) for at in range(metadata.head, metadata.tail)] != sorted(content):
        broken.append(f"{key!r} has other elements than those from head to tail")
    if index != (sorted(score + member for member, score in content.items()) if metadata.type == ZSET else []):
        broken.append(f"{key!r} has other scores in its index")
    return broken


def _broken_counts(store: Store, layout: NeoKV, keys: dict[bytes, Metadata]) -> list[str]:
    counts = Counter((layout.parse_metadata_key(key)[0], metadata.type) for key, metadata in keys.items())
    stored = Counter(open_position(store, HOME).counts)
    return [] if counts == stored else [f"there are {counts} keys, counted {stored}"]
