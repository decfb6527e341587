"""The library's log lines, in a service's log and in slotlog's own."""

from __future__ import annotations

import json
import logging
import subprocess
import sys

import pytest

from slotlog.log_lines import LineLogger

LOGGER = LineLogger("slotlog.test")


def test_a_service_reads_the_fields(caplog: pytest.LogCaptureFixture) -> None:
    """With the standard library's formatters a line is its event and the fields, from a logger named slotlog."""
    with caplog.at_level(logging.INFO):
        LOGGER.warning("topic_created", topic="board", partitions=4)
        LOGGER.debug("not_asked_for")

    assert [("slotlog.test", logging.WARNING, "topic_created topic='board' partitions=4")] == caplog.record_tuples
    assert "test_log_lines.py" == caplog.records[0].filename


def test_percent_signs_stay(caplog: pytest.LogCaptureFixture) -> None:
    """A field is no format string."""
    LOGGER.warning("refused", error="50% of %s")

    assert ["refused error='50% of %s'"] == caplog.messages


def test_the_server_writes_json() -> None:
    """In the server's log the fields are fields, with level and time, and a secret is hidden."""
    program = (
        "from ops.logging import configure_logging; configure_logging(json=True);"
        "from slotlog.log_lines import LineLogger;"
        "LineLogger('slotlog.test').warning('topic_created', topic='board', partitions=4, sasl_plain='seen by nobody')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    line = json.loads(done.stderr)
    del line["timestamp"]

    assert {
        "event": "topic_created",
        "topic": "board",
        "partitions": 4,
        "sasl_plain": "***",
        "level": "warning",
    } == line
