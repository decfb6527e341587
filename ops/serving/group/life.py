"""Runs a service as a member of its group."""

from __future__ import annotations

import asyncio
import fcntl
from typing import BinaryIO

from ops.config import ConfigError, Settings
from ops.serving.group.lags import GroupLags
from ops.serving.group.roles import GroupRoles


def hold_data(settings: Settings) -> BinaryIO | None:
    """Keep other members of a group away from this one's states until the file is closed.

    Raises:
        ConfigError: another one has them.
    """
    if not settings.group.name:
        return None
    file = (settings.data / "GROUP").open("wb")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise ConfigError(f"{settings.data} is another worker's: each worker of a group needs its own --data") from None
    return file


async def live_in_group(settings: Settings, roles: GroupRoles, lags: GroupLags) -> None:
    """Be a member of the settings' group until cancelled, then leave it."""
    from ingest.membership.group_member import Group, GroupMember  # noqa: PLC0415 - aiokafka takes 0.1 s to import
    from ingest.membership.owner_offsets import OwnerOffsets  # noqa: PLC0415 - as above

    group, servers = settings.group, settings.log_url.removeprefix("kafka://")
    await lags.look_at_disk(settings)
    wanted = Group(
        group.name, group.instance, group.session_seconds, settings.topic, settings.partitions, group.standbys
    )
    renewed = roles.membership.renewed
    member = GroupMember(servers, settings.kafka, wanted, roles.describe, roles.planned, renewed, roles.positions)
    offsets = OwnerOffsets(servers, settings.kafka, settings.topic, settings.partitions, roles.owner_at)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(member.run())
        tasks.create_task(offsets.run())
        tasks.create_task(roles.run(member))
