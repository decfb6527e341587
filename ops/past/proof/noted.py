"""Holds the log of a partition against all heads of its hash chain that were noted earlier."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import structlog

from ops.config import ConfigError, Settings
from ops.snapshots.chain_heads import heads_of
from ops.snapshots.objects import missing_directory
from ops.state.chain.checking import Checked, Keeper, Known, check_chain
from ops.state.chain.kept_heads import KeptHeads
from ops.state.opening.directories import prepare_data
from ops.state.rebuilding.replay_plan import opened
from slotlog.log.hash_chain import HEAD_BYTES

logger = structlog.get_logger(__name__)

_NOTED: Final = re.compile(rf"([0-9]{{1,9}}):([0-9]{{1,18}}):([0-9a-f]{{{2 * HEAD_BYTES}}})")


async def check_log(settings: Settings, partition: int, given: Sequence[Known] = ()) -> Checked:
    """Compute the chain anew, and compare it with the heads of the data directory, of snapshots, and those given.

    If the log is right, heads of what has come since are kept in the data directory. A directory of snapshots that is
    not there has none: who takes the first one makes it.

    Raises:
        SnapshotStoreError: the store of snapshots that is named in the settings cannot be asked.
        OSError: the heads of the data directory cannot be read. Others: as `Reader.fetch`.
    """
    prepare_data(settings)
    known = [*_kept(settings, partition), *given]
    log = opened(settings)
    await log.start()
    try:
        checked = await check_chain(log, partition, known)
    finally:
        await log.close()
    if checked.is_right:
        with KeptHeads(settings.data, partition, keep=True) as kept:
            kept.add(checked.found)
    return checked


def _kept(settings: Settings, partition: int) -> list[Known]:
    with KeptHeads(settings.data, partition, keep=False) as kept:
        known = [Known(*each, Keeper.DATA) for each in kept.heads]
        if kept.trouble:
            logger.warning("chain_heads_lost", reason=kept.trouble)
    if missing_directory(settings.snapshots.url) is not None:
        return known
    return known + [Known(*each, Keeper.SNAPSHOT) for each in heads_of(settings)(partition)]


def parse_heads(texts: Sequence[str], partitions: int) -> dict[int, list[Known]]:
    """Heads by partition, of texts such as `0:120:HEAD`, with 64 hexadecimal digits.

    Raises:
        ConfigError: one is none, or of a partition that is not there.
    """
    found: dict[int, list[Known]] = {}
    for text in texts:
        match = _NOTED.fullmatch(text)
        if match is None or int(match[1]) >= partitions:
            raise ConfigError(f"--head {text!r} is no PARTITION:OFFSET:HEAD, as `slotlog chain` prints it, of this log")
        known = Known(int(match[2]), bytes.fromhex(match[3]), Keeper.GIVEN)
        found.setdefault(int(match[1]), []).append(known)
    return found
