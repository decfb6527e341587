"""Every command as COMMAND describes it, derived from usage lines and a few tables.

The tables hold Redis' own classification (https://valkey.io/commands/, field `command_flags` and `key_specs`), which
cluster clients and ACL categories go by. Tests hold every entry against the oracle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from engine.commands.registry import SPECS, Spec
from resp.catalog.arguments import KeyRange, key_ranges, legacy_range
from resp.catalog.categories import CATEGORIES, categories_of
from resp.catalog.server_registry import SERVER_SPECS, ServerSpec

_OWN_GROUP: Final = "slotlog"
"""TICK, RULES and SETCLOCK are events of the engine that no client sends."""

_GROWS: Final = (
    "append bitfield bitop copy decr decrby geoadd georadius georadiusbymember geosearchstore getset hincrby "
    "hincrbyfloat hmset hset hsetex hsetnx incr incrby incrbyfloat linsert lmove lpush lpushx lset mset msetex msetnx "
    "pfadd pfmerge psetex restore rpoplpush rpush rpushx sadd sdiffstore set setbit setex setnx setrange sinterstore "
    "sort sunionstore xadd zadd zdiffstore zincrby zinterstore zrangestore zunionstore"
)
DENY_OOM: Final = frozenset(_GROWS.split())
"""Commands that may need more memory, which Redis refuses when it has none left."""

_STORES: Final = (
    "bitop geosearchstore sdiffstore sinterstore sunionstore zdiffstore zinterstore zrangestore zunionstore"
)
_MOVES: Final = "blmove brpoplpush lmove rpoplpush smove"
_KEY_FLAGS: Final[dict[str, tuple[str, ...]]] = {
    _STORES: ("OW update", "RO access"),
    _MOVES: ("RW access delete", "RW insert"),
    "rename": ("RW access delete", "OW update"),
    "renamenx": ("RW access delete", "OW insert"),
    "copy": ("RO access", "OW update"),
    "pfmerge": ("RW access insert", "RO access"),
    "exists hexists hlen hstrlen llen memory|usage object|encoding object|freq object|idletime object|refcount scard "
    "sismember strlen touch type watch zcard xlen": ("RO",),
    "blmpop blpop brpop bzmpop bzpopmax bzpopmin getdel hgetdel lmpop lpop rpop spop zmpop zpopmax zpopmin": (
        "RW access delete",
    ),
    "decr decrby getex getset hgetex hincrby hincrbyfloat incr incrby incrbyfloat move setbit zincrby": (
        "RW access update",
    ),
    "bitfield set": ("RW access update variable_flags",),
    "msetnx setnx": ("OW insert",),
    "hdel lrem ltrim srem zrem zremrangebylex zremrangebyrank zremrangebyscore xdel xtrim": ("RW delete",),
    "mset msetex psetex restore setex": ("OW update",),
    "append hsetex hsetnx linsert lpush lpushx pfadd rpush rpushx sadd": ("RW insert",),
    "pfcount": ("RW access",),
    "del delifeq unlink": ("RM delete",),
    "spublish ssubscribe sunsubscribe": ("not_key",),
    "georadius georadiusbymember": ("RO access", "OW update variable_flags"),
    "sort": ("RO access", "RO access", "OW update"),
}
"""What is done to the keys of each range, by commands. Else a read accesses them, and a write updates them."""

_FLAGS_OF_KEYS: Final = {name: flags for names, flags in _KEY_FLAGS.items() for name in names.split()}

_ALL_SHARDS: Final = ("request_policy:all_shards",)
_SPLIT: Final = "request_policy:multi_shard"
_TIPS: Final[dict[str, tuple[str, ...]]] = {
    "keys": _ALL_SHARDS,
    "dbsize": (*_ALL_SHARDS, "response_policy:agg_sum"),
    "flushall": (*_ALL_SHARDS, "response_policy:all_succeeded"),
    "flushdb": (*_ALL_SHARDS, "response_policy:all_succeeded"),
    "randomkey": (*_ALL_SHARDS, "response_policy:special"),
    "scan": ("request_policy:special", "response_policy:special"),
    "info": (*_ALL_SHARDS, "response_policy:special"),
    "ping": (*_ALL_SHARDS, "response_policy:all_succeeded"),
    "wait": (*_ALL_SHARDS, "response_policy:agg_min"),
    "waitaof": (*_ALL_SHARDS, "response_policy:agg_min"),
    "mget": (_SPLIT,),
    **dict.fromkeys(("mset", "msetex"), (_SPLIT, "response_policy:all_succeeded")),
    **dict.fromkeys(("del", "exists", "touch", "unlink"), (_SPLIT, "response_policy:agg_sum")),
}
"""How a cluster client may send it to many nodes; Redis has further tips, which say nothing about that."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One command, or one subcommand of a container.

    Attributes:
        name: lower case, `client|list` for a subcommand.
        arity: with the name; negative: at least so many.
        keys: where keys stand, with the flags of each range.
        subcommands: of a container.
    """

    name: str
    usage: str
    arity: int
    flags: tuple[str, ...]
    categories: tuple[str, ...]
    group: str
    since: str
    complexity: str
    summary: str
    tips: tuple[str, ...] = ()
    keys: tuple[tuple[KeyRange, tuple[str, ...]], ...] = ()
    subcommands: tuple[Entry, ...] = ()

    @property
    def names(self) -> int:
        """How many words its name is."""
        return 2 if "|" in self.name else 1

    @property
    def first_last_step(self) -> tuple[int, int, int]:
        """Where its keys stand, as far as these three numbers can say it."""
        return legacy_range([each for each, _ in self.keys])

    def takes(self, words: int) -> bool:
        """Whether a command of so many words, its name included, has the right number of them."""
        return words == self.arity if self.arity >= 0 else words >= -self.arity


def catalog() -> dict[str, Entry]:
    """Every command that a client may send, by name; subcommands stand in their containers alone."""
    entries = [
        _of_engine(spec) for name, spec in SPECS.items() if spec.group != _OWN_GROUP and name not in SERVER_SPECS
    ]
    entries += [_of_server(spec) for spec in SERVER_SPECS.values()]
    subcommands: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.names > 1:
            subcommands.setdefault(entry.name.partition("|")[0], []).append(entry)
    found = {entry.name: entry for entry in entries if entry.names == 1}
    for name, members in subcommands.items():
        found[name] = _container(name, found.get(name), tuple(members))
    return dict(sorted(found.items()))


def _categories(name: str) -> tuple[str, ...]:
    found = categories_of(name.encode().upper())
    return tuple(category for category in CATEGORIES if category in found)


def _of_engine(spec: Spec) -> Entry:
    name = spec.name.decode().lower()
    categories = _categories(name)
    flags = ["write" if spec.write else "readonly"]
    flags += ["denyoom"] if name in DENY_OOM else []
    flags += ["fast"] if "fast" in categories else []
    keys = _keys(name, spec.usage, write=spec.write)
    if not all(each.fixed for each, _ in keys):
        flags.append("movablekeys")
    return Entry(
        name,
        spec.usage,
        _arity(name, spec),
        tuple(flags),
        categories,
        spec.group,
        spec.since,
        spec.complexity,
        spec.summary,
        _TIPS.get(name, ()),
        keys,
    )


def _of_server(spec: ServerSpec) -> Entry:
    name = spec.shown_name
    has_keys = spec.keys is not None or name in _FLAGS_OF_KEYS
    keys = _keys(name, spec.usage, write="write" in spec.flags) if has_keys else ()
    tips = _TIPS.get(name, ())
    return Entry(
        name,
        spec.usage,
        _arity(name, spec),
        spec.flags,
        spec.categories,
        spec.group,
        spec.since,
        spec.complexity,
        spec.summary,
        tips,
        keys,
    )


def _container(name: str, bare: Entry | None, subcommands: tuple[Entry, ...]) -> Entry:
    """The entry of a container; `bare` is the command that its name is alone, such as COMMAND."""
    first = subcommands[0]
    if bare is None:
        summary = f"A container for {name} commands."
        depends = "depends on the subcommand"
        group, since = first.group, first.since
        return Entry(name, name.upper(), -2, (), ("slow",), group, since, depends, summary, subcommands=subcommands)
    return Entry(
        name,
        name.upper(),
        -1,
        bare.flags,
        bare.categories,
        bare.group,
        bare.since,
        bare.complexity,
        bare.summary,
        bare.tips,
        subcommands=subcommands,
    )


def _arity(name: str, spec: Spec | ServerSpec) -> int:
    least = spec.arguments_min + name.count("|") + 1
    return least if spec.arguments_min == spec.arguments_max else -least


def _keys(name: str, usage: str, *, write: bool) -> tuple[tuple[KeyRange, tuple[str, ...]], ...]:
    flags = _FLAGS_OF_KEYS.get(name, ("RW update" if write else "RO access",))
    ranges = key_ranges(usage, 1 + name.count("|"))
    spec = SPECS.get(name.upper().encode())
    if spec is not None and spec.patterns is not None:  # Redis too gives up here: a pattern may look like an option
        ranges = [ranges[0], KeyRange(0, known=False), *(KeyRange(0, known=False) for _ in ranges[1:])]
    return tuple((each, tuple(flags[min(at, len(flags) - 1)].split())) for at, each in enumerate(ranges))
