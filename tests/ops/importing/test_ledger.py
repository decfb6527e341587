"""The ledger of an import from a server: what it knows, and what a pass has not met."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ops.importing.redis.ledger import DOUBT, LEFT_OUT, Ledger, Seen
from ops.importing.source import SourceError

ONE = Seen(b"1", 0)
TWO = Seen(b"2", 5)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """An empty one in its first pass."""
    made = Ledger(tmp_path / "keys.sqlite3")
    made.begin_pass()
    yield made
    made.close()


def unmet(ledger: Ledger) -> list[tuple[int, bytes]]:
    """All that this pass has not met."""
    return sorted((db, name) for db, names in ledger.unmet() for name in names)


@pytest.mark.parametrize("written", [False, True], ids=["waiting", "in the log"])
def test_what_was_given_is_known(written: bool, ledger: Ledger) -> None:
    """A key is known by its newest value, and its deletion too, whether or not its event is in the log yet."""
    ledger.given(0, b"a", ONE)
    ledger.given(0, b"a", TWO)
    ledger.given(3, b"a", ONE)
    ledger.given(0, b"b", ONE)
    ledger.given(0, b"b", None)
    if written:
        ledger.appended(5)

    assert {b"a": TWO} == ledger.look(0, [b"a", b"b", b"c"])
    assert {b"a": ONE} == ledger.look(3, [b"a"])


@pytest.mark.parametrize("appended", [0, 1, 2, 3], ids=lambda number: f"{number} appended")
def test_what_a_pass_has_not_met_is_told(appended: int, ledger: Ledger) -> None:
    """A key of an earlier pass is unmet until it is met, also when its event comes into the log in a later pass."""
    for name in (b"a", b"b", b"c"):
        ledger.given(0, name, ONE)
    ledger.begin_pass()
    ledger.appended(appended)
    ledger.given(0, b"b", TWO)

    assert [(0, b"a"), (0, b"c")] == unmet(ledger)
    ledger.appended(4 - appended)
    assert [(0, b"a"), (0, b"c")] == unmet(ledger)
    ledger.met(0, [b"c"])
    ledger.forget(0, [b"a"])
    assert [] == unmet(ledger)


def test_what_was_not_appended_is_not_kept(ledger: Ledger, tmp_path: Path) -> None:
    """After an end in the middle, a ledger knows what is in the log, and its passes go on."""
    ledger.given(0, b"a", ONE)
    ledger.given(0, b"b", ONE)
    ledger.appended(1)
    ledger.close()
    again = Ledger(tmp_path / "keys.sqlite3")

    assert 1 == again.number
    assert {b"a": ONE} == again.look(0, [b"a", b"b"])
    again.close()


def test_what_may_be_in_the_log_is_in_doubt(ledger: Ledger, tmp_path: Path) -> None:
    """After an end between an append and its answer nothing is known of the keys in it; a pass asks for them."""
    ledger.given(0, b"was", ONE)
    ledger.appended(1)
    for name in (b"was", b"new"):
        ledger.begin(0, name)
    ledger.doubt()
    ledger.given(0, b"was", TWO)
    ledger.given(0, b"new", ONE)
    ledger.close()
    again = Ledger(tmp_path / "keys.sqlite3")
    again.begin_pass()

    doubt = Seen(DOUBT, 0)
    assert {b"was": doubt, b"new": doubt} == again.look(0, [b"was", b"new"])
    assert [(0, b"new"), (0, b"was")] == unmet(again)
    again.close()


def test_an_answer_about_an_older_value_ends_no_doubt(ledger: Ledger, tmp_path: Path) -> None:
    """Of a key with a newer event on its way only the answer to that one counts."""
    for seen in (ONE, TWO):
        ledger.begin(0, b"a")
        ledger.doubt()
        ledger.given(0, b"a", seen)
    found = []
    for _ in range(2):
        ledger.appended(1)
        other = Ledger(tmp_path / "keys.sqlite3")
        found.append(other.look(0, [b"a"]))
        other.close()

    assert [{b"a": Seen(DOUBT, 0)}, {b"a": TWO}] == found


def test_more_keys_than_a_page_are_unmet(ledger: Ledger) -> None:
    """All of many keys are told, of every database."""
    names = [b"%05d" % number for number in range(1200)]
    for name in names:
        ledger.given(0, name, ONE)
        ledger.given(2, name, ONE)
    ledger.appended(2400)
    ledger.begin_pass()

    assert [(db, name) for db in (0, 2) for name in names] == unmet(ledger)


def test_lasting_keys_are_those_that_were_carried_over(ledger: Ledger) -> None:
    """A key that was left out, or that dies by itself, is none that a source may not lose."""
    ledger.keep(0, b"stream", Seen(LEFT_OUT, 0))
    ledger.given(0, b"dying", TWO)
    ledger.appended(1)
    assert {} == ledger.lasting_keys()
    for name in (b"a", b"b"):
        ledger.given(2, name, ONE)
    ledger.appended(2)

    assert {2: 2} == ledger.lasting_keys()


def test_file_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    """As is one in a directory that is not there."""
    with pytest.raises(SourceError, match=r"keys.sqlite3 cannot be used: unable to open database file"):
        Ledger(tmp_path / "nowhere" / "keys.sqlite3")


def test_full_disk_is_said_and_keeps_what_was_written(ledger: Ledger, tmp_path: Path) -> None:
    """A write that fails is an error in words, nothing of it stays, and the ledger can be used and read on."""
    ledger.given(0, b"before", ONE)
    ledger.appended(1)
    (pages,) = ledger._file.execute("PRAGMA page_count").fetchone()
    ledger._file.execute(f"PRAGMA max_page_count = {pages}")
    for name in (b"a", b"x" * 9000):
        ledger.given(0, name, ONE)
    with pytest.raises(SourceError, match=r"keys.sqlite3 cannot be used: database or disk is full: make room"):
        ledger.appended(2)
    ledger.appended(0)
    ledger.close()
    again = Ledger(tmp_path / "keys.sqlite3")

    assert {b"before": ONE} == again.look(0, [b"before", b"a"])
    again.close()


def test_damaged_file_is_said(tmp_path: Path) -> None:
    """A file that is no ledger is an error that says what to do."""
    (tmp_path / "keys.sqlite3").write_bytes(b"nonsense" * 1000)

    with pytest.raises(SourceError, match=r"is damaged .*: remove its directory"):
        Ledger(tmp_path / "keys.sqlite3")
