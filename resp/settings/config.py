"""The parameters of CONFIG GET and CONFIG SET, under Redis' names.

    real        take effect: limits, timeouts, SLOWLOG, keyspace events, requirepass
    no effect   taken, as clients set them: nothing is compressed, and every payload is looked at
    knobs       thresholds of Redis' encodings: nothing is encoded by them here, OBJECT ENCODING answers by them
    read-only   known when the process starts: addresses, TLS, the settings of slotlog as `slotlog-…`
    constants   what clients and tools ask for and what is always so here: no snapshots, no eviction

Setting a parameter that is not to be changed to the value that it has is fine; anything else is refused.
Nothing is written to a file: what must outlive the process belongs into the process' own settings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from engine.batch.keys.object_encoding import DEFAULT_KNOBS
from engine.errors import SYNTAX, CommandError
from engine.limits import STRING_BYTES_MAX
from engine.values.glob import matcher
from engine.values.stream_nodes import NODE_BYTES, NODE_ENTRIES
from resp.settings.parameters import (
    BUFFER_LIMITS,
    EVENTS,
    INT32_MAX,
    INT64_MAX,
    PERCENTILES,
    SECRET,
    SHARE,
    TEXT,
    YES_NO,
    ParameterKind,
    choice,
    integer,
    memory,
)
from resp.settings.startup import RespSettings
from slotlog.shared.limits import DATABASES

_MIB: Final = 1024 * 1024
_GLOB: Final = frozenset(b"*?[")

Change = Callable[[Any], None]
"""Told of a parameter's new value; ValueError, with a reason for the client, refuses it."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter.

    Attributes:
        name: its own; `alias` an older one that means the same.
        default: as text.
        mutable: CONFIG SET may change it.
    """

    name: str
    kind: ParameterKind
    default: str
    mutable: bool = False
    alias: str = field(default="", kw_only=True)


def _real() -> tuple[Parameter, ...]:
    count, seconds = integer(0, INT64_MAX), integer(0, INT32_MAX)
    limits = "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60"
    return (
        Parameter("maxclients", integer(1, 2**32 - 1), "10000", mutable=True),
        Parameter("maxmemory", memory(0, INT64_MAX), "0", mutable=True),
        Parameter("maxmemory-clients", SHARE, str(1024 * _MIB), mutable=True),
        Parameter("timeout", seconds, "0", mutable=True),
        Parameter("tcp-keepalive", seconds, "300", mutable=True),
        Parameter("proto-max-bulk-len", memory(_MIB, STRING_BYTES_MAX), "512mb", mutable=True),
        Parameter("client-query-buffer-limit", memory(_MIB, INT64_MAX), "1gb", mutable=True),
        Parameter("client-output-buffer-limit", BUFFER_LIMITS, limits, mutable=True),
        Parameter(
            "slowlog-log-slower-than",
            integer(-1, INT64_MAX),
            "10000",
            mutable=True,
            alias="commandlog-execution-slower-than",
        ),
        Parameter("slowlog-max-len", count, "128", mutable=True, alias="commandlog-slow-execution-max-len"),
        Parameter("latency-monitor-threshold", count, "0", mutable=True),
        Parameter("latency-tracking", YES_NO, "yes", mutable=True),
        Parameter("latency-tracking-info-percentiles", PERCENTILES, "50 99 99.9", mutable=True),
        Parameter("notify-keyspace-events", EVENTS, "", mutable=True),
        Parameter("requirepass", SECRET, "", mutable=True),
        Parameter("acllog-max-len", count, "128", mutable=True),
        Parameter("tracking-table-max-keys", count, "1000000", mutable=True),
    )


def _without_effect() -> tuple[Parameter, ...]:
    """What clients and tests set that is about a value's form in memory, of which there is one here."""
    return (
        Parameter("list-compress-depth", integer(0, INT32_MAX), "0", mutable=True),
        Parameter("sanitize-dump-payload", choice("no", "yes", "clients"), "no", mutable=True),
    )


def _knobs() -> tuple[Parameter, ...]:
    entries, size = integer(0, INT64_MAX), memory(0, INT64_MAX)
    kinds = {"list-max-listpack-size": integer(-INT32_MAX - 1, INT32_MAX), "set-max-listpack-value": entries}
    return tuple(
        Parameter(
            name,
            kinds.get(name) or (size if name.endswith("-value") else entries),
            str(default),
            mutable=True,
            alias=name.replace("listpack", "ziplist") if not name.startswith("set-") else "",
        )
        for name, default in DEFAULT_KNOBS.items()
    )


def _read_only() -> tuple[Parameter, ...]:
    port = integer(0, 65535)
    tls_files = ("tls-cert-file", "tls-key-file", "tls-ca-cert-file", "tls-ca-cert-dir")
    return (
        Parameter("port", port, "6379"),
        Parameter("tls-port", port, "0"),
        Parameter("bind", TEXT, "127.0.0.1"),
        Parameter("protected-mode", YES_NO, "yes"),
        Parameter("databases", integer(1, DATABASES), str(DATABASES)),
        Parameter("aclfile", TEXT, ""),
        Parameter("dir", TEXT, ""),
        Parameter("cluster-enabled", YES_NO, "no"),
        Parameter("cluster-node-timeout", integer(0, INT64_MAX), "5000"),
        Parameter("tls-cluster", YES_NO, "no"),
        Parameter("enable-debug-command", choice("yes", "no", "local"), "no"),
        Parameter("tls-auth-clients", choice("no", "yes", "optional"), "yes"),
        Parameter("tls-protocols", TEXT, ""),
        *(Parameter(name, TEXT, "") for name in tls_files),
    )


_CONSTANTS: Final[Mapping[str, str]] = {
    "acl-pubsub-default": "resetchannels",
    "loglevel": "notice",
    "save": "",
    "appendonly": "yes",
    "appendfsync": "always",
    "auto-aof-rewrite-percentage": "0",
    "no-appendfsync-on-rewrite": "no",
    "stop-writes-on-bgsave-error": "yes",
    "maxmemory-policy": "noeviction",
    "maxmemory-samples": "5",
    "lfu-log-factor": "10",
    "lfu-decay-time": "1",
    "lazyfree-lazy-eviction": "yes",
    "lazyfree-lazy-expire": "yes",
    "lazyfree-lazy-server-del": "yes",
    "lazyfree-lazy-user-del": "yes",
    "lazyfree-lazy-user-flush": "yes",
    "activerehashing": "yes",
    "activedefrag": "no",
    "io-threads": "1",
    "stream-node-max-bytes": str(NODE_BYTES),
    "stream-node-max-entries": str(NODE_ENTRIES),
    "hz": "10",
    "daemonize": "no",
    "supervised": "no",
    "unixsocket": "",
    "tcp-backlog": "511",
    "busy-reply-threshold": "5000",
    "lua-time-limit": "5000",
    "enable-module-command": "no",
    "enable-protected-configs": "no",
    "cluster-require-full-coverage": "no",
    "cluster-allow-reads-when-down": "no",
    "min-replicas-to-write": "0",
    "min-slaves-to-write": "0",
    "repl-backlog-size": "0",
    "replica-read-only": "yes",
    "slave-read-only": "yes",
    "replicaof": "",
    "slaveof": "",
}
"""Always so here."""


def all_parameters() -> tuple[Parameter, ...]:
    """Every parameter that a server has whatever its settings are."""
    constants = (Parameter(name, TEXT, value) for name, value in _CONSTANTS.items())
    return (*_real(), *_knobs(), *_without_effect(), *_read_only(), *constants)


class Config:
    """The values of all parameters; `config["maxclients"]` is one of them, as int, bool, str or a tuple.

    Args:
        start: values that the process starts with, by name, as text; read-only ones as well.
        settings: the process' own settings, shown as `slotlog-…`.

    Attributes:
        knobs: the thresholds of OBJECT ENCODING by name; one mapping, whose values change.

    Raises:
        ValueError: a value of `start` that cannot be.
    """

    def __init__(self, start: Mapping[str, str] | None = None, settings: Mapping[str, str] | None = None) -> None:
        own = [Parameter(f"slotlog-{name.replace('_', '-')}", TEXT, text) for name, text in (settings or {}).items()]
        parameters = (*all_parameters(), *own)
        self._parameters = {parameter.name: parameter for parameter in parameters}
        self._by_name = {**self._parameters, **{each.alias: each for each in parameters if each.alias}}
        self._values: dict[str, Any] = {}
        for parameter in parameters:
            self._values[parameter.name] = parameter.kind.keep(parameter.kind.parse(parameter.default, None))
        for name, text in (start or {}).items():
            self.start(name, text)
        self.knobs: dict[str, int] = {name: self._values[name] for name in DEFAULT_KNOBS}
        self._listeners: dict[str, list[Change]] = {}

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def on_change(self, name: str, change: Change) -> None:
        """Call `change` with each new value of the parameter."""
        self._listeners.setdefault(self._parameters[name].name, []).append(change)

    def follow(self, name: str, change: Change) -> None:
        """Call `change` with the value now, and with each new one."""
        change(self[name])
        self.on_change(name, change)

    def show(self, name: str) -> str:
        """The value as text; the name in any case."""
        parameter = self._by_name[name.lower()]
        return parameter.kind.show(self._values[parameter.name])

    def matching(self, patterns: Sequence[bytes]) -> list[tuple[str, str]]:
        """Name and value of the parameters that a name or glob pattern, in any case, fits, by name.

        A name is given back as it was asked for, as Redis does.
        """
        names: dict[str, str] = {}
        for pattern in patterns:
            if _GLOB.isdisjoint(pattern):
                found = [_text(pattern)] if _text(pattern).lower() in self._by_name else []
            else:
                fits = matcher(pattern.lower())
                found = [name for name in self._by_name if fits(name.encode())]
            for name in found:
                names.setdefault(name.lower(), name)
        return [(names[lower], self.show(lower)) for lower in sorted(names)]

    def set_many(self, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        """Set all of the parameters, or none.

        Raises:
            CommandError: with Redis' text, of the first that cannot be set.
        """
        named = [(self._find(name), _text(name), _text(value)) for name, value in pairs]
        seen: dict[str, None] = {}
        for _, shown_name, _ in named:
            if shown_name.lower() in seen:
                raise _failed(shown_name, "duplicate parameter")
            seen[shown_name.lower()] = None
        checked = {parameter.name: self._checked(parameter, shown, text) for parameter, shown, text in named}
        self._apply(checked)

    def start(self, name: str, text: str) -> None:
        """Set any parameter before clients come, read-only ones included; no listener hears of it.

        Raises:
            ValueError: no such parameter, or not a value of it.
        """
        parameter = self._by_name.get(name)
        if parameter is None:
            raise ValueError(f"{name}: no such parameter")
        try:
            value = parameter.kind.parse(text, self._values[parameter.name])
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        self._values[parameter.name] = parameter.kind.keep(value)

    def _find(self, name: bytes) -> Parameter:
        parameter = self._by_name.get(_text(name).lower())
        if parameter is None:
            raise CommandError(f"ERR Unknown option or number of arguments for CONFIG SET - '{_text(name)}'")
        return parameter

    def _checked(self, parameter: Parameter, shown_name: str, text: str) -> Any:
        now = self._values[parameter.name]
        try:
            value = parameter.kind.parse(text, now)
        except ValueError as error:
            raise _failed(shown_name, str(error)) from None
        if not parameter.mutable and value != now:
            raise _failed(shown_name, "can't set immutable config")
        return value

    def _apply(self, checked: Mapping[str, Any]) -> None:
        """Tell the listeners; when one of them refuses, those told before hear the old value again.

        Of secrets the old value is not known, so they come last.
        """
        told: list[tuple[Change, Any]] = []
        for name in sorted(checked, key=lambda name: self._parameters[name].kind is SECRET):
            for change in self._listeners.get(name, ()):
                try:
                    change(checked[name])
                except ValueError as error:
                    for undo, before in reversed(told):
                        undo(before)
                    raise _failed(name, str(error)) from None
                told.append((change, self._values[name]))
        for name, value in checked.items():
            self._values[name] = self._parameters[name].kind.keep(value)
            if name in self.knobs:
                self.knobs[name] = value


def start_values(settings: RespSettings) -> dict[str, str]:
    """What CONFIG GET shows of the settings that the server starts with; none of them is a secret but the password.

    That one is masked by its kind (`resp.settings.parameters.HIDDEN`).

    Raises:
        ValueError: `settings.config` has a parameter in it that does nothing there, such as `requirepass`.
    """
    own = {
        "port": str(settings.address[1]),
        "bind": settings.address[0],
        "tls-port": str(settings.tls_address[1] if settings.tls_address else 0),
        "tls-cert-file": str(settings.tls_cert or ""),
        "tls-key-file": str(settings.tls_key or ""),
        "tls-ca-cert-file": str(settings.tls_ca or ""),
        "tls-auth-clients": settings.tls_auth_clients,
        "aclfile": str(settings.acl_file or ""),
        "requirepass": settings.password,
        "protected-mode": "yes" if settings.protected else "no",
        "cluster-enabled": "yes" if settings.partitions > 1 else "no",
        "cluster-node-timeout": str(int(settings.node_timeout_seconds * 1000)),
        "tls-cluster": "yes" if settings.tls_cluster else "no",
        "enable-debug-command": "yes" if settings.debug_commands else "no",
    }
    fixed = {*own, *_CONSTANTS, *(parameter.name for parameter in _read_only())}
    for name in settings.config:
        if name in fixed:
            raise ValueError(f"redis.config: {name} cannot be set there; see the other settings of redis")
    return {**own, **settings.config}


def config_set(config: Config, args: Sequence[bytes]) -> None:
    """Carry out the arguments of CONFIG SET.

    Raises:
        CommandError: a name without a value, or as `Config.set_many`.
    """
    if len(args) % 2:
        raise CommandError(SYNTAX)
    config.set_many(list(zip(args[::2], args[1::2], strict=True)))


def _failed(name: str, reason: str) -> CommandError:
    return CommandError(f"ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}")


def _text(value: bytes) -> str:
    return value.decode(errors="surrogateescape")
