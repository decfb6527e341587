"""Every setting, with its type.

In order of precedence: the command line, `SLOTLOG_*` environment variables, a TOML file (`slotlog.toml` in the working
directory, or what `SLOTLOG_CONFIG` names), the defaults below.

    SLOTLOG_LOG=kafka://broker:9092
    SLOTLOG_KAFKA__SASL_PASSWORD=…        nested settings: two underscores, or a [kafka] table in TOML
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from pydantic import ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic.dataclasses import dataclass as validated
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from engine import native
from engine.layouts import DEFAULT_LAYOUT, LAYOUTS
from ops.addresses import parse_address
from ops.change_settings import ChangeSettings
from ops.group_settings import GroupSettings
from ops.partition_lists import parse_own, parse_share
from ops.past_settings import PastSettings
from ops.redis_settings import RedisSettings
from ops.snapshot_settings import SnapshotSettings
from slotlog.log import KafkaSettings
from slotlog.log.embedded import writer

KEY_CACHE_BYTES: Final = 96 * 1024 * 1024
"""Of keys, elements and rank counts in the memory of a process: some 220,000 short strings."""

GATHERED_RECORDS_MAX: Final = 16_384
"""Records of a process that wait to be written to RocksDB."""

MEMORY_SETTINGS: Final = ("cache_bytes", "key_cache_bytes", "memtable_bytes")
"""Those that several processes share."""

PARTITIONS_MAX: Final = 1024
_MIB: Final = 1024 * 1024

# Of Kubernetes, for services whose names begin with slotlog; of this project's tests; of nested settings.
_PREFIX: Final = "SLOTLOG_"
_NOT_OURS: Final = re.compile(
    r"SLOTLOG_(.*_)?(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
    r"|SLOTLOG_(TEST|DIFFERENTIAL)_.+|SLOTLOG_(REDIS|KAFKA|SNAPSHOTS|GROUP)__.+"
)


class ConfigError(Exception):
    """A setting that cannot be used; the message names it and says what it should be."""


@validated(config=ConfigDict(extra="forbid", hide_input_in_errors=True), frozen=True, kw_only=True)
class KafkaTable(KafkaSettings):
    """The client library's settings, validated as they come from environment and file."""


class Settings(BaseSettings):
    """Settings of a slotlog process.

    `own` is a list of partitions and ranges, such as `0-3,6`; empty means all. `http` and other addresses are
    HOST:PORT.
    """

    model_config = SettingsConfigDict(
        env_prefix="SLOTLOG_",
        env_nested_delimiter="__",
        extra="forbid",
        validate_default=True,
        hide_input_in_errors=True,
    )

    data: Path = Field(default=Path(".data"), description="directory of the state, and of the embedded log by default")
    log: str = Field(default="", description="address: sqlite:///FILE or kafka://HOST:PORT,…; empty: DATA/log.sqlite3")
    topic: str = Field(default="slotlog", pattern=r"^[a-zA-Z0-9._-]{1,245}$", description="name of the log")
    partitions: int = Field(
        default=1,
        ge=1,
        le=PARTITIONS_MAX,
        description="partitions of the log: 1 is a standalone Redis, more are a cluster",
    )
    own: str = Field(default="", description="partitions that this process applies, such as 0-3,6; empty: all")
    own_of: str = Field(
        default="", description="instead of own: INDEX/COUNT, the share of process INDEX (from 0) of COUNT"
    )
    processes: int = Field(
        default=1, ge=1, le=PARTITIONS_MAX, description="processes that share the partitions of `slotlog serve`"
    )
    layout: str = Field(default=DEFAULT_LAYOUT, description="layout of the records on disk")
    index: SecretStr = Field(
        default=SecretStr(""),
        description="Redis server that has the sorted sets of the layout camellia-v1; empty: the state has them",
    )
    http: str = Field(
        default="127.0.0.1:8640", description="address of the status page, /metrics, /livez and /readyz; empty: none"
    )
    http_password: SecretStr = Field(
        default=SecretStr(""),
        description="password of the page, /status and /metrics, for the user slotlog (HTTP Basic); empty: none",
    )
    resp: str = Field(default="127.0.0.1:6379", description="address for Redis clients; empty: none")
    lag_events_ready_max: int = Field(default=10_000, ge=0, description="a partition more events behind is not ready")
    log_bytes_warn: int = Field(
        default=100 * 1024 * _MIB,
        ge=0,
        description="size of the log above which an alert fires, because it grows for ever; 0: no alert",
    )
    free_bytes_min: int = Field(
        default=256 * _MIB,
        ge=0,
        description="free disk space below which applying waits; cleaning may still use half of it",
    )
    clock_ahead_max_s: float = Field(
        default=60.0,
        gt=0,
        description="seconds that the time of an event may be ahead of the wall clock; above that it is refused",
    )
    clock_move_max_s: float = Field(
        default=60.0,
        gt=0,
        description="seconds by which the wall clock may be moved within an hour; above that nothing is appended",
    )
    identity_check_seconds: float = Field(
        default=60.0, gt=0, description="seconds between two checks that the log still belongs to the state"
    )
    ttl_cleanup_interval_s: float = Field(
        default=1.0, gt=0, description="seconds between two searches for expired keys, if the last one found all"
    )
    ttl_cleanup_keys_max: int = Field(default=1000, ge=1, description="expired keys removed in one step, at most")
    cleanup_loop_share: float = Field(
        default=0.25, gt=0, le=0.5, description="share of the event loop's time that cleaning may use"
    )
    reclaim_elements_per_s: int = Field(
        default=0, ge=0, description="elements of deleted collections removed per second, at most; 0: no limit"
    )
    compaction_bytes_per_s: int = Field(
        default=64 * _MIB, ge=0, description="bytes compacted per second to free disk space, at most; 0: no limit"
    )
    log_scrub_bytes_per_s: int = Field(
        default=_MIB,
        ge=0,
        description="bytes of the embedded log whose checksums are verified per second, at most; 0: none",
    )
    dead_letters_max: int = Field(
        default=0, ge=0, description="newest dead letters that the embedded log keeps of each partition; 0: all"
    )
    dead_letters_days: float = Field(
        default=0.0, ge=0, description="days for which the embedded log keeps dead letters; 0: for ever"
    )
    batch_records_max: int = Field(default=1000, ge=1, le=1000, description="records applied in one batch, at most")
    cache_bytes: int = Field(
        default=256 * _MIB, ge=8 * _MIB, description="size of RocksDB's block cache for all partitions together"
    )
    key_cache_bytes: int = Field(
        default=KEY_CACHE_BYTES,
        ge=_MIB,
        description="memory for recently used keys, elements and rank counts of all partitions together",
    )
    memtable_bytes: int = Field(
        default=256 * _MIB, ge=8 * _MIB, description="size of RocksDB's memtables for all partitions together"
    )
    gathered_records_max: int = Field(
        default=GATHERED_RECORDS_MAX,
        ge=0,
        le=1_000_000,
        description="records of all partitions together that wait to be written to RocksDB as one batch, which takes"
        " some 12 ms for 16,384; 0: each batch is written by itself",
    )
    log_level: str = Field(
        default="info",
        pattern="^(debug|info|warning|error)$",
        description="lowest level: debug, info, warning or error",
    )
    native: bool = Field(
        default=True,
        description="whether compiled code applies events, and serves usual commands, where it is installed",
    )
    tracing: bool = Field(default=False, description="whether OpenTelemetry spans go to OTEL_EXPORTER_OTLP_ENDPOINT")
    redis: RedisSettings = Field(default_factory=RedisSettings, description="how Redis clients are served")
    group: GroupSettings = Field(default_factory=GroupSettings, description="which workers share the partitions")
    snapshots: SnapshotSettings = Field(default_factory=SnapshotSettings, description="where snapshots are, and when")
    changes: ChangeSettings = Field(default_factory=ChangeSettings, description="whether changes of keys are told")
    past: PastSettings = Field(default_factory=PastSettings, description="how reads in the past are made quick")
    kafka: KafkaTable = Field(default_factory=KafkaTable, description="how to reach Kafka")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Command line, environment, TOML file."""
        toml = TomlConfigSettingsSource(settings_cls, _config_file())
        return init_settings, env_settings, toml, file_secret_settings

    @field_validator("data", mode="before")
    @classmethod
    def _named(cls, value: object) -> object:
        if value == "":  # it would be the working directory
            raise ValueError("an empty path: name a directory, or leave the setting out")
        return value

    @field_validator("layout")
    @classmethod
    def _known_layout(cls, value: str) -> str:
        if value not in LAYOUTS:
            raise ValueError(f"there is no such layout; there are {', '.join(LAYOUTS)}")
        return value

    @field_validator("http", "resp")
    @classmethod
    def _address(cls, value: str) -> str:
        if value:
            parse_address(value)
        return value

    @model_validator(mode="after")
    def _owned(self) -> Settings:
        parse_own(self.own, self.partitions)
        parse_share(self.own_of, self.partitions)
        return self

    def refuse_group(self) -> None:
        """Refuse settings with which this worker cannot join its group.

        Raises:
            ConfigError: with the reason.
        """
        listens = parse_address(self.resp)[0] in {"0.0.0.0", "::", ""} if self.resp else False  # noqa: S104 - looked for
        reasons = (
            (not self.log_url.startswith("kafka://"), "needs a log in Kafka (--log kafka://…)"),
            (
                self.partitions == 1 and bool(self.redis.replica),
                "with one partition is a replica at --resp itself: leave SLOTLOG_REDIS__REPLICA out",
            ),
            (
                self.partitions > 1 and bool(self.redis.sentinel),
                "with several partitions is a cluster, which has no Sentinels: leave SLOTLOG_REDIS__SENTINEL out",
            ),
            (bool(self.own or self.own_of), "says itself which partitions are whose: leave --own out"),
            (bool(self.redis.peers), "says itself who the peers are: leave SLOTLOG_REDIS__PEERS out"),
            (self.group.name == self.kafka.group, "needs another name than SLOTLOG_KAFKA__GROUP, which has no members"),
            (listens and not self.redis.announce, "needs SLOTLOG_REDIS__ANNOUNCE where --resp names no single address"),
        )
        for is_so, reason in reasons:
            if self.group.name and is_so:
                raise ConfigError(f"a worker of the group {self.group.name} {reason}")

    @property
    def log_url(self) -> str:
        """Where the log is: `log`, or the embedded one in the data directory."""
        return self.log or f"sqlite:///{self.data / 'log.sqlite3'}"

    @property
    def owned(self) -> list[int]:
        """The partitions that this process applies, ascending."""
        return parse_own(self.own, self.partitions) if self.own else parse_share(self.own_of, self.partitions)


_TABLES: Final = {
    "redis": tuple(RedisSettings.model_fields),
    "snapshots": tuple(SnapshotSettings.model_fields),
    "group": tuple(GroupSettings.model_fields),
    "changes": tuple(ChangeSettings.model_fields),
    "past": tuple(PastSettings.model_fields),
    "kafka": tuple(each.name for each in fields(KafkaSettings)),
}
"""The names of nested settings, by table."""


def load_settings(**options: Any) -> Settings:
    """The settings, with the given options (None: not given) before environment and file.

    The process then runs on what is compiled, or not, as they say.

    Raises:
        ConfigError: names every setting that cannot be used, and where it was given. Values are not repeated: one may
            be a secret.
    """
    config = os.environ.get("SLOTLOG_CONFIG")
    if config and not Path(config).is_file():
        raise ConfigError(f"SLOTLOG_CONFIG names {config}, which is not a file")
    misspelt = [f"{wrong}: the setting is {right}" for wrong, right in _misspelt(os.environ)]
    if misspelt:
        raise ConfigError("; ".join(misspelt))
    given = {name: value for name, value in options.items() if value is not None}
    try:
        settings = Settings(**given)
    except ValidationError as error:
        faults = [
            _said(tuple(map(str, fault["loc"])), fault["type"], fault["msg"].removeprefix("Value error, "), given)
            for fault in error.errors()
        ]
        raise ConfigError("; ".join(faults)) from None
    except SettingsError as error:
        raise ConfigError(_no_json(error)) from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{_config_file()} is not TOML: {error}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{_config_file()} is not TOML: its bytes are no UTF-8 ({error.reason})") from None
    native.choose(native=settings.native)
    hot = native.chosen()
    writer.choose(None if hot is None else hot.rows_of)
    return settings


def _config_file() -> str:
    return os.environ.get("SLOTLOG_CONFIG", "slotlog.toml")


def _no_json(error: SettingsError) -> str:
    """Which variable holds what could not be taken as JSON: pydantic names the table alone."""
    cause = error.__cause__
    if not isinstance(cause, json.JSONDecodeError):
        return str(error)
    names = [name for name, value in os.environ.items() if name.upper().startswith("SLOTLOG_") and value == cause.doc]
    return f"{' or '.join(names)}: it has to be JSON: {cause}"


def _said(place: tuple[str, ...], kind: str, message: str, given: Mapping[str, Any]) -> str:
    """What is wrong with a setting, behind where it was given: an option, a variable, or a key of the file."""
    if not place:
        return f"settings: {message}"
    name, variable = ".".join(place), _variable_of(place)
    text = f"there is no such setting{_meant(variable)}" if kind == "extra_forbidden" else message
    if place[0] in given:
        return f"{name}: {text}"
    if any(each.upper() == variable for each in os.environ):
        return f"{variable}: {text}"
    return f"{_config_file()}: {name}: {text}" if Path(_config_file()).is_file() else f"{name}: {text}"


def unknown_variables(names: Iterable[str]) -> list[str]:
    """A sentence for each SLOTLOG_ variable that is no setting, with the setting that may be meant.

    Those of a nested setting are refused, not passed over. Kubernetes makes variables of its own for a service named
    slotlog, such as SLOTLOG_PORT_6379_TCP: those are none of ours, and nobody's mistake.
    """
    return [
        f"{name} is no setting, and has no effect{_meant(name.upper())}"
        for name in sorted(names)
        if name.upper().startswith("SLOTLOG_")
        and name.upper() not in _variables()
        and not _NOT_OURS.fullmatch(name.upper())
    ]


def _meant(variable: str) -> str:
    """`: do you mean …?`, where a variable's name is much like that of a setting."""
    # Without what they all begin with, which alone would make short names alike.
    names = [name.removeprefix(_PREFIX) for name in _variables()]
    near = get_close_matches(variable.removeprefix(_PREFIX), names, n=1, cutoff=0.8)
    return f": do you mean {_PREFIX}{near[0]}?" if near else ""


def _variable_of(place: Sequence[str]) -> str:
    return f"{_PREFIX}{'__'.join(place)}".upper()


def _variables() -> set[str]:
    """The name of every setting as a variable, and of the one that names the file."""
    return {
        "SLOTLOG_CONFIG",
        *(_variable_of((name,)) for name in Settings.model_fields),
        *(_variable_of((table, name)) for table, names in _TABLES.items() for name in names),
    }


def _misspelt(names: Iterable[str]) -> list[tuple[str, str]]:
    """Variables with one underscore where a nested setting has two, each with its true name.

    Passed over, SLOTLOG_REDIS_PASSWORD would be a service without a password. Other unknown variables are no mistake:
    Kubernetes makes some of its own, such as SLOTLOG_REDIS_PORT.
    """
    right = {
        f"SLOTLOG_{table}_{name}".upper(): f"SLOTLOG_{table}__{name}".upper()
        for table, names in _TABLES.items()
        for name in names
    }
    return [(name, right[name.upper()]) for name in names if name.upper() in right]
