"""`slotlog dump`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import typer

from ops.cli.options import (
    Data,
    Json,
    LogUrl,
    StateOwn,
    StatePartitions,
    StateTopic,
    listed,
    print_json,
    print_note,
    print_standings,
    reports_errors,
)
from ops.config import Settings


@reports_errors
def dump(
    *,
    data: Data = None,
    log: LogUrl = None,
    topic: StateTopic = None,
    partitions: StatePartitions = None,
    own: StateOwn = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Print RocksDB's records in hex instead of keys and values.")
    ] = False,
    json: Json = False,
) -> None:
    """Print a state as JSON Lines in key order: one key per line, or with --raw one RocksDB record per line.

    Example: slotlog dump --data .data | head
    """
    from ops.logging import configure_logging
    from ops.state.opening.directories import reading
    from ops.state.opening.recorded import load_state_settings, presence
    from ops.state.reports.standing import log_ends, standing_of

    settings = load_state_settings(data=data, log=log, topic=topic, partitions=partitions, own=own)
    configure_logging(settings.log_level)
    here, missing = presence(settings)
    if missing:
        print_note(f"{settings.data} has no state of {listed('partition', missing)}")
    ends = log_ends(settings, here)
    standings = []
    for partition in here:
        with reading(settings, partition) as (_, machine):
            standings.append(standing_of(settings, ends, partition, machine.next_offset))
    print_standings(standings, ends)
    for partition in here:
        for line in _raw_lines(settings, partition) if raw else _key_lines(settings, partition):
            print_json(line)


def _raw_lines(settings: Settings, partition: int) -> Iterator[dict[str, str]]:
    from engine.proof.walk import raw_records
    from ops.state.opening.directories import reading

    with reading(settings, partition) as (store, machine):
        for column_family, key, value in raw_records(store, machine.layout):
            yield {"cf": column_family, "key": key.hex(), "value": value.hex()}


def _key_lines(settings: Settings, partition: int) -> Iterator[dict[str, Any]]:
    from engine.model import TYPE_NAMES
    from engine.proof.walk import live_keys
    from ops.reply_json import bytes_as_json
    from ops.state.opening.directories import reading

    with reading(settings, partition) as (store, machine):
        for key in live_keys(store, machine.layout, machine.clock_ms):
            yield {
                "db": key.db,
                "key": bytes_as_json(key.name),
                "type": TYPE_NAMES[key.type],
                "expire_ms": key.expire_ms or None,
                "value": _content(key.type, list(key.content)),
                **_field_times(key.field_times),
            }


def _field_times(field_times: Iterable[tuple[bytes, int]]) -> dict[str, Any]:
    from ops.reply_json import bytes_as_json

    shown = [[bytes_as_json(field), expire_ms] for field, expire_ms in field_times]
    return {"field_expire_ms": shown} if shown else {}


def _content(type_code: int, pieces: list[bytes]) -> Any:
    from engine.model import HASH, STREAM, STRING, ZSET
    from engine.values.encoding import parse_score
    from ops.reply_json import as_json, bytes_as_json

    if type_code == STRING:
        return bytes_as_json(pieces[0])
    if type_code in {HASH, ZSET}:
        return [
            [bytes_as_json(name), as_json(parse_score(value)) if type_code == ZSET else bytes_as_json(value)]
            for name, value in zip(pieces[::2], pieces[1::2], strict=True)
        ]
    if type_code == STREAM:
        return _stream(pieces)
    return [bytes_as_json(piece) for piece in pieces]


def _stream(pieces: list[bytes]) -> dict[str, Any]:
    """A stream with its groups, its ids as Redis shows them."""
    from engine.types.stream.streams import show_id
    from engine.values.stream_walk import parts_of
    from engine.values.streams import joined
    from ops.reply_json import bytes_as_json

    entries, state = joined(parts_of(iter(pieces)))
    assert state is not None, "a whole stream has it"
    groups = [
        {
            "name": bytes_as_json(group.name),
            "last_id": show_id(group.last_id).decode(),
            "entries_read": group.entries_read,
            "consumers": [
                {"name": bytes_as_json(each.name), "seen_ms": each.seen_ms, "active_ms": each.active_ms}
                for each in group.consumers
            ],
            "pending": [
                {
                    "id": show_id(each.id).decode(),
                    "consumer": bytes_as_json(each.consumer),
                    "delivered_ms": each.delivered_ms,
                    "deliveries": each.deliveries,
                }
                for each in group.pending
            ],
        }
        for group in state.groups
    ]
    return {
        "last_id": show_id(state.last_id).decode(),
        "max_deleted_id": show_id(state.max_deleted_id).decode(),
        "entries_added": state.entries_added,
        "entries": [[show_id(each.id).decode(), list(map(bytes_as_json, each.texts))] for each in entries],
        "groups": groups,
    }
