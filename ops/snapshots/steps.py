"""Names of the steps between which a process may be killed: the tests end one at each of them."""

from __future__ import annotations

from enum import StrEnum

import structlog

logger = structlog.get_logger(__name__)


class Step(StrEnum):
    """A moment at which something has just been done."""

    LINKED = "linked"  # the checkpoint is there
    DESCRIBED = "described"  # its digest is known
    UPLOADED_ONE = "uploaded one"  # one of its files is in the store
    UPLOADED = "uploaded"  # all of them are
    PUBLISHED = "published"  # the manifest is in the store
    FETCHED = "fetched"  # all files are in a directory beside where they are to be
    CHECKED = "checked"  # and have the digest of the manifest
    MARKED = "marked"  # the mark of a verified snapshot is in the store
    PUT_ASIDE = "put aside"  # the state that was there is not there any more
    IN_PLACE = "in place"  # the restored state is there
    UNMARKED = "unmarked"  # of a snapshot to be deleted, the mark is gone
    CONDEMNED = "condemned"  # a file that no manifest names has its mark
    COLLECTED = "collected"  # such a file is gone
    TRIMMED = "trimmed"  # records are gone from the log
    GAVE_BACK = "gave back"  # a part of the room that they had is gone from its file


def reached(step: Step) -> None:
    """Note a step in the log, for who looks closely."""
    logger.debug("snapshot_step", step=str(step))
