"""Stored scripts: their order, which of them go, and a state that is opened again."""

from __future__ import annotations

import pytest

from engine.errors import CorruptionError
from engine.limits import EVAL_SCRIPTS_MAX
from engine.store.store import SYSTEM_CF, Changes
from engine.tables.scripts import PREFIX, Scripts, digest_of
from tests.engine.harness import new_store

ONE, TWO = b"return 1", b"return 2"


def test_a_digest_is_the_sha1_in_hexadecimal() -> None:
    """A script goes by the digits that every Redis client computes."""
    assert b"e0e1f9fabfc9d4800c877a703b823ac0578ff8db" == digest_of(ONE)


def test_a_script_is_found_in_either_case() -> None:
    """EVALSHA may write the digits in capitals."""
    scripts, sha = Scripts(new_store()), digest_of(ONE)
    scripts.keep(sha, ONE, Changes(), loaded=False)
    assert [ONE, ONE, None] == [scripts.find(sha), scripts.find(sha.upper()), scripts.find(digest_of(TWO))]


def test_what_eval_has_brought_goes_first_come_first() -> None:
    """One script more than the bound pushes out the first that EVAL has brought, and none that was loaded."""
    scripts, changes = Scripts(new_store()), Changes()
    scripts.keep(digest_of(ONE), ONE, changes, loaded=True)
    scripts.keep(digest_of(TWO), TWO, changes, loaded=False)
    for number in range(EVAL_SCRIPTS_MAX):
        source = b"return %d" % (100 + number)
        scripts.keep(digest_of(source), source, changes, loaded=False)
    assert EVAL_SCRIPTS_MAX + 1 == len(scripts.by_sha)
    assert [ONE, None] == [scripts.find(digest_of(ONE)), scripts.find(digest_of(TWO))]
    assert changes.of(SYSTEM_CF)[PREFIX + bytes.fromhex(digest_of(TWO).decode())] is None


def test_loading_a_known_script_keeps_it_for_good() -> None:
    """A script that EVAL has brought stays once SCRIPT LOAD names it, and keeps its number."""
    scripts, changes, sha = Scripts(new_store()), Changes(), digest_of(ONE)
    scripts.keep(sha, ONE, changes, loaded=False)
    scripts.keep(sha, ONE, changes, loaded=True)
    scripts.keep(sha, ONE, changes, loaded=False)
    assert (1, True, ONE) == scripts.by_sha[sha]


def test_an_opened_state_goes_on_where_it_was() -> None:
    """Read from the store, the scripts have their order, their size and the next number."""
    store = new_store()
    scripts, changes = Scripts(store), Changes()
    for source, loaded in ((TWO, False), (ONE, True)):
        scripts.keep(digest_of(source), source, changes, loaded=loaded)
    store.write(changes)
    opened = Scripts(store)
    assert (scripts.by_sha, 16) == (opened.by_sha, opened.bytes)
    assert list(scripts.by_sha) == list(opened.by_sha)
    opened.keep(digest_of(b"x"), b"x", Changes(), loaded=True)
    assert 3 == opened.by_sha[digest_of(b"x")].number


def test_numbers_begin_anew_after_a_flush() -> None:
    """A state that was opened after SCRIPT FLUSH gives the same numbers as one that was not."""
    scripts, changes = Scripts(new_store()), Changes()
    scripts.keep(digest_of(ONE), ONE, changes, loaded=True)
    scripts.flush(changes)
    scripts.keep(digest_of(TWO), TWO, changes, loaded=True)
    assert {digest_of(TWO): (1, True, TWO)} == scripts.by_sha
    assert len(TWO) == scripts.bytes


@pytest.mark.parametrize(("name", "value"), [(b"\0" * 20, b""), (b"\0" * 20, bytes(9)), (b"short", bytes(8) + b"\1x")])
def test_a_record_that_is_none_is_damage(name: bytes, value: bytes) -> None:
    """A record without a header, without a number or under another name is refused."""
    store = new_store()
    changes = Changes()
    changes.of(SYSTEM_CF)[PREFIX + name] = value
    store.write(changes)
    with pytest.raises(CorruptionError, match="cannot be read"):
        Scripts(store)
