"""The last failure to connect is kept for each broker, until a connection to it is made."""

from __future__ import annotations

import pytest
from aiokafka.errors import KafkaConnectionError, NodeNotReadyError, SaslAuthenticationFailed

from slotlog.log.kafka import failures
from slotlog.log.kafka.clients import told
from slotlog.log.kafka.failures import forget_failure, note_failure

ALL = KafkaConnectionError("Unable to bootstrap from [('a', 9, <AddressFamily>), ('b', 9, <AddressFamily>)]")


@pytest.fixture(autouse=True)
def _none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing failed before."""
    monkeypatch.setattr(failures, "_failures", {})


def test_the_last_failure_of_the_servers_is_told() -> None:
    """Of the servers that were asked, the last failure counts; those of others, and of other ports, do not."""
    note_failure("b", 9, ConnectionRefusedError(111, "any text"), None)
    note_failure("a", 9, SaslAuthenticationFailed("no such user"), "PLAIN")
    note_failure("a", 99, TimeoutError(), None)
    first = told(ALL)
    note_failure("b", 9, ConnectionRefusedError(111, "any text"), None)

    assert "no connection to a:9: the broker answers SASL_AUTHENTICATION_FAILED (no such user)" == first
    assert "no broker answers (b:9: Connection refused)" == told(ALL)


def test_a_connection_ends_a_failure() -> None:
    """Once a broker has let a client in, its earlier failure is not told any more."""
    note_failure("a", 9, SaslAuthenticationFailed("no such user"), "PLAIN")
    forget_failure("a", 9)

    assert "no broker answers" == told(ALL)
    assert told(NodeNotReadyError("1")).startswith("NodeNotReadyError")


def test_a_refusal_is_told_where_time_has_run_out() -> None:
    """A client that is refused until its time-out tells the refusal; where nobody was there, the time-out alone."""
    note_failure("a", 9, ConnectionRefusedError(111, "any text"), None)
    away = told(TimeoutError())
    note_failure("a", 9, SaslAuthenticationFailed("no such user"), "PLAIN")

    assert "the broker did not answer in time" == away
    refused = "no connection to a:9: the broker answers SASL_AUTHENTICATION_FAILED (no such user)"
    assert f"the broker did not answer in time ({refused})" == told(TimeoutError())
    assert refused == told(NodeNotReadyError("1"))
