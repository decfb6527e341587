"""Clients that are blocked while their partition goes to another worker."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from resp.cluster.topology import ClusterMap
from tests.real.oracle import ErrorReply
from tests.resp.harness import serving, until

_OTHER: Final = ("10.0.0.9", 6379)


async def test_who_is_blocked_is_sent_to_the_new_owner(tmp_path: Path) -> None:
    """BLPOP in a partition that moves is answered MOVED, as in Redis."""
    async with serving(tmp_path, partitions=2, settings={"grouped": True}) as live:
        client, me = await live.client(), live.server.cluster.me.address
        client.send(["BLPOP", "foo", "0"])
        await until(lambda: bool(live.server.blocked.waiters))
        await live.server.give_up(1, ClusterMap.of_group(2, me, {0: me, 1: _OTHER}, [_OTHER]))
        assert ErrorReply(b"MOVED 12182 10.0.0.9:6379") == await client.reply()
