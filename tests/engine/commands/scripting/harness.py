"""Scripts as events of a machine."""

from __future__ import annotations

from engine.apply.machine import Applied, Machine, Record
from engine.values.replies import Reply
from tests.engine.harness import FINGERPRINT, NOW_MS, apply


def record(offset: int, *words: str | bytes, at_ms: int = NOW_MS) -> Record:
    """The record at `offset` with a command, word by word."""
    name, *args = (word.encode() if isinstance(word, str) else word for word in words)
    return (offset, at_ms, name, args, 0, None, None)


def applied(machine: Machine, *words: str | bytes) -> Applied:
    """Apply and commit one command."""
    result = apply(machine, record(machine.next_offset, *words))
    machine.commit(FINGERPRINT)
    return result


def outcome(machine: Machine, *words: str | bytes) -> Reply:
    """The reply of one command as the next event; for a dead letter its reason."""
    offset = machine.next_offset
    result = applied(machine, *words)
    reply: Reply = {**dict(result.dead_letters), **result.outcomes}[offset]
    return reply
