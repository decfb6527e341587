"""Packs the user data of Kafka's group protocol: what a member says of itself, and the plan for all.

Both are msgpack maps with a version. A newer one is refused: whoever reads it does not know what it would leave out.
A plan is compressed, as Kafka keeps the plans of all members in one record, of 1 MB at most unless told otherwise.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import msgpack

from ingest.membership.plan import Member, Plan

VERSION: Final = 1

_BYTES_MAX: Final = 4 * 1024 * 1024

T = TypeVar("T")


class UserDataError(Exception):
    """User data that cannot be used; the message says of whom, and what to do."""


def pack_member(member: Member) -> bytes:
    """Pack what a member sends when it joins."""
    return _pack(
        {
            "member": _member(member),
            "owns": sorted(member.owns),
            "follows": sorted(member.follows),
            "behind": sorted(member.behind.items()),
            "replica": member.replica,
            "sentinel": member.sentinel,
            "leaves": member.leaves,
            "partitions": member.partitions,
            "standbys": member.standbys,
        }
    )


def unpack_member(data: bytes) -> Member:
    """Unpack the member that sent this.

    Raises:
        UserDataError: it is of a newer version, or no such data.
    """

    def read(fields: Mapping[str, Any]) -> Member:
        name, zone, resp, http = _four_texts(fields["member"])
        behind = {_count(partition): _count(events) for partition, events in fields["behind"]}
        owns, follows = (frozenset(_count(each) for each in fields[role]) for role in ("owns", "follows"))
        replica, sentinel = _text(fields.get("replica", "")), _text(fields.get("sentinel", ""))
        leaves = _flag(fields.get("leaves", False))
        topic = (_count(fields.get(part, 0)) for part in ("partitions", "standbys"))
        return Member(name, zone, resp, http, owns, follows, behind, replica, sentinel, leaves, *topic)

    return _unpack(data, "a member of the group", read)


def pack_plan(plan: Plan) -> bytes:
    """Pack what the leader sends to each member: names once, then their places."""
    places = {name: place for place, name in enumerate(plan.members)}
    packed = _pack(
        {
            "members": [_member(member) for member in plan.members.values()],
            "replicas": [member.replica for member in plan.members.values()],
            "sentinels": [member.sentinel for member in plan.members.values()],
            "leaving": [places[name] for name, member in plan.members.items() if member.leaves],
            "owners": [(partition, places[name]) for partition, name in sorted(plan.owners.items())],
            "standbys": [
                (partition, [places[name] for name in names])
                for partition, names in sorted(plan.standbys.items())
                if names
            ],
            "warming": [(partition, places[name]) for partition, name in sorted(plan.warming.items())],
            "former": [(partition, places[name]) for partition, name in sorted(plan.former.items())],
        }
    )
    return zlib.compress(packed)


def unpack_plan(data: bytes) -> Plan:
    """Unpack the plan that the leader has sent.

    Raises:
        UserDataError: it is of a newer version, or no such data.
    """

    def read(fields: Mapping[str, Any]) -> Plan:
        listed = fields["members"]
        replicas, sentinels = (
            [_text(each) for each in fields.get(part, [""] * len(listed))] for part in ("replicas", "sentinels")
        )
        leaving = {_count(place) for place in fields.get("leaving", ())}
        members = [
            Member(*_four_texts(each), replica=replica, sentinel=sentinel, leaves=place in leaving)
            for place, (each, replica, sentinel) in enumerate(zip(listed, replicas, sentinels, strict=True))
        ]
        names = [member.name for member in members]
        owners, warming, former = (
            {_count(partition): names[_count(place)] for partition, place in fields[part]}
            for part in ("owners", "warming", "former")
        )
        followers = {
            _count(partition): tuple(names[_count(place)] for place in places)
            for partition, places in fields["standbys"]
        }
        return Plan(
            dict(zip(names, members, strict=True)),
            owners,
            {partition: followers.get(partition, ()) for partition in owners},
            warming,
            former,
        )

    return _unpack(_decompressed(data), "the leader of the group", read)


def _member(member: Member) -> list[str]:
    return [member.name, member.zone, member.resp, member.http]


def _decompressed(data: bytes) -> bytes:
    """At most so many bytes as a plan may have; nothing where it is no compressed data, which is refused later."""
    try:
        return zlib.decompressobj().decompress(data, _BYTES_MAX)
    except zlib.error:
        return b""


def _pack(fields: dict[str, Any]) -> bytes:
    packed: bytes = msgpack.packb({"v": VERSION, **fields})
    return packed


def _unpack(data: bytes, sender: str, read: Callable[[Mapping[str, Any]], T]) -> T:
    try:
        fields = msgpack.unpackb(data, max_str_len=_BYTES_MAX, max_bin_len=0, max_ext_len=0)
        version = _count(fields["v"])
        if version <= VERSION:
            return read(fields)
    except Exception as error:
        raise UserDataError(
            f"{sender} has sent user data that is none of slotlog's: is its group another one's?"
        ) from error
    raise UserDataError(
        f"{sender} has version {version} of the user data, and this slotlog knows {VERSION} and before: upgrade it"
    )


def _count(value: object) -> int:
    if type(value) is not int or value < 0:
        raise TypeError
    return value


def _flag(value: object) -> bool:
    if type(value) is not bool:
        raise TypeError
    return value


def _text(value: object) -> str:
    if type(value) is not str:
        raise TypeError
    return value


def _four_texts(value: object) -> tuple[str, str, str, str]:
    match value:
        case [str(name), str(zone), str(resp), str(http)]:
            return name, zone, resp, http
    raise TypeError
