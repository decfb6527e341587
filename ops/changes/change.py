"""A change of a key, as a JSON document and as a CloudEvent in Kafka's binary mode (docs/changes.md)."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from ops.past.documents import value_as_json
from ops.past.history import Value
from ops.reply_json import bytes_as_json
from slotlog.log import Headers
from slotlog.log.kafka.outgoing import Outgoing

OFFSET_HEADER: Final = "slotlog.offset"
"""The event to go on with after a restart."""

_CHANGED: Final = "slotlog.change.v1"
_BEGUN: Final = "slotlog.begun.v1"
_START: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Change(NamedTuple):
    """The change of one key by one event.

    Attributes:
        partition, offset: of the event.
        number: of the change among those of the event.
        time_ms: of the event.
        db, key: what has changed; key None: all keys of the database, or of all of them.
        commands: which have changed it.
        event_id: the event's idempotency key.
        value: the key after the event; None where it is too large.
        databases: that FLUSHDB and FLUSHALL have emptied, or the two that SWAPDB has exchanged; of a key none.
        expired: whether time has changed the key, before the event: it is gone, or a hash has lost fields.
    """

    partition: int
    offset: int
    number: int
    time_ms: int
    db: int
    key: bytes | None
    commands: tuple[bytes, ...]
    event_id: bytes | None
    value: Value | None
    databases: tuple[int, ...]
    expired: bool


def document(change: Change, value_bytes_max: int) -> dict[str, Any]:
    """The change as a JSON document."""
    value = value_as_json(change.value)
    omitted = change.key is not None and change.value is None
    if value is not None and len(json.dumps(value["value"])) > value_bytes_max:
        value, omitted = {**value, "value": None}, True
    return {
        "partition": change.partition,
        "offset": change.offset,
        "time_ms": change.time_ms,
        "db": change.db,
        "key": None if change.key is None else bytes_as_json(change.key),
        "databases": list(change.databases),
        "commands": [name.decode() for name in change.commands],
        "id": None if change.event_id is None else bytes_as_json(change.event_id),
        "expired": change.expired,
        "after": value,
        "omitted": omitted,
    }


def change_record(topic: str, change: Change, value_bytes_max: int) -> Outgoing:
    """The change as a record. Its key is the changed one, so that it can be found by consumers' tools."""
    headers = (
        *_attributes(topic, _CHANGED, f"{change.partition}-{change.offset}-{change.number}", change.time_ms),
        *(() if change.key is None else (("ce_subject", change.key.decode(errors="backslashreplace").encode()),)),
        ("content-type", b"application/json"),
        (OFFSET_HEADER, b"%d" % change.offset),
    )
    body = json.dumps(document(change, value_bytes_max), separators=(",", ":")).encode()
    return Outgoing(change.partition, change.key, body, None, headers)


def begun_record(topic: str, partition: int, offset: int, time_ms: int) -> Outgoing:
    """The record that a feed begins with: events from `offset` on are told."""
    headers = (*_attributes(topic, _BEGUN, f"{partition}-{offset}-begun", time_ms), (OFFSET_HEADER, b"%d" % offset))
    return Outgoing(partition, None, None, None, headers)


def _attributes(topic: str, kind: str, identity: str, time_ms: int) -> Headers:
    time = (_START + timedelta(milliseconds=time_ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return (
        ("ce_specversion", b"1.0"),
        ("ce_id", identity.encode()),
        ("ce_source", f"/slotlog/{topic}".encode()),
        ("ce_type", kind.encode()),
        ("ce_time", time.encode()),
    )
