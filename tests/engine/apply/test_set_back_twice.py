"""SETCLOCK, sent again because the first one was not enough."""

from __future__ import annotations

from tests.engine.apply.test_set_back import AHEAD_MS, YEARS_MS, set_back
from tests.engine.harness import FINGERPRINT, NOW_MS, apply, event, new_store, open_machine


def test_an_id_is_known_through_two_settings_in_a_row() -> None:
    """Whoever sets a wrong clock back by too little first, and then by the rest, applies nothing twice."""
    store = new_store()
    machine = open_machine(store)
    found: list[object] = []
    for clock_ms, at_ms in (
        (0, AHEAD_MS),
        (NOW_MS + YEARS_MS // 2, NOW_MS + YEARS_MS // 2 + 1),
        (NOW_MS, NOW_MS + 1000),
    ):
        if clock_ms:
            set_back(machine, store, clock_ms)
        offset = machine.next_offset
        found.append(apply(machine, event(offset, "INCR n", at_ms=at_ms, event_id=b"once")).outcomes[offset])
        machine.commit(FINGERPRINT)
    assert [1, 1, 1] == found
