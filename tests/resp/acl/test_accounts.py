"""Logging in, what was refused, what is shown of it, and who may connect at all."""

from __future__ import annotations

from typing import Any

import pytest

import resp.commands  # noqa: F401 - fills the registry, which says what is redacted
from engine.errors import CommandError
from resp.acl import Acl, may_connect, redacted
from resp.acl.log import AclLog

NOW_MS = 1_700_000_000_000


# ---------------------------------------------------------------------- logging in


def test_a_user_logs_in_with_one_of_its_passwords() -> None:
    """Each of them will do, and nothing else; a user that is off or not there never does."""
    acl = Acl()
    user = acl.set_user(b"u", [b"on", b">one", b">two"])
    acl.set_user(b"off", [b">one"])
    acl.set_user(b"open", [b"on", b"nopass"])
    acl.set_user(b"closed", [b"on"])

    assert acl.authenticate(b"u", b"one") is user
    assert acl.authenticate(b"u", b"two") is user
    assert acl.authenticate(b"open", b"anything") is acl.users[b"open"]
    refused = [(b"u", b"three"), (b"u", b""), (b"off", b"one"), (b"closed", b""), (b"nobody", b""), (b"U", b"one")]
    assert [acl.authenticate(*login) for login in refused] == [None] * len(refused)


def test_the_default_user_needs_no_password_until_it_has_one() -> None:
    """`requirepass` gives it one, a later one takes its place, and an empty one takes it away."""
    acl = Acl()
    open_at_first = acl.default_user.needs_no_password

    acl.require("first")
    with_first = (acl.default_user.needs_no_password, acl.authenticate(b"default", b"first") is acl.default_user)
    acl.require("second")
    with_second = (acl.authenticate(b"default", b"first"), acl.authenticate(b"default", b"second") is acl.default_user)
    acl.require("")

    assert (open_at_first, with_first, with_second, acl.default_user.needs_no_password) == (
        True,
        (False, True),
        (None, True),
        True,
    )


def test_a_default_user_that_is_off_lets_nobody_in_by_itself() -> None:
    """`nopass` is not enough: who is off is nobody's user."""
    acl = Acl()
    acl.set_user(b"default", [b"off"])

    assert not acl.default_user.needs_no_password
    assert acl.authenticate(b"default", b"") is None


def test_the_default_user_stays_when_others_are_deleted() -> None:
    """It cannot be deleted, and then none of the named ones is; else those that there are."""
    acl = Acl()
    one = acl.set_user(b"one", [])

    with pytest.raises(CommandError, match="ERR The 'default' user cannot be removed"):
        acl.delete_users([b"one", b"default"])
    assert acl.delete_users([b"one", b"none", b"one"]) == [one]
    assert list(acl.users) == [b"default"]


def test_no_representation_of_a_user_has_a_hash_in_it() -> None:
    """`repr` ends up in logs and tracebacks."""
    user = Acl().set_user(b"u", [b"on", b">secret"])

    assert repr(user) == "User(b'u', on)"


# ---------------------------------------------------------------------- the log


def note(log: AclLog, denied: bytes, now_ms: int = NOW_MS, reason: Any = "command") -> None:
    """One refusal of user `u`."""
    log.add(reason, "toplevel", denied, b"u", b"id=1", now_ms)


def shown(log: AclLog, count: int = 10, now_ms: int = NOW_MS) -> list[dict[bytes, Any]]:
    """What ACL LOG answers."""
    return [dict(entry) for entry in log.newest(count, now_ms)]


def test_the_log_shows_the_newest_first_with_redis_fields() -> None:
    """Every field of an entry, and their order."""
    log = AclLog()
    note(log, b"get")
    note(log, b"set")

    (newest, *_) = log.newest(10, NOW_MS + 1500)

    assert newest == [
        (b"count", 1),
        (b"reason", b"command"),
        (b"context", b"toplevel"),
        (b"object", b"set"),
        (b"username", b"u"),
        (b"age-seconds", 1.5),
        (b"client-info", b"id=1"),
        (b"entry-id", 1),
        (b"timestamp-created", NOW_MS),
        (b"timestamp-last-updated", NOW_MS),
    ]


def test_a_repetition_within_a_minute_is_counted_in_its_entry() -> None:
    """At 60 s it still is, and comes to the front; a millisecond later it is an entry of its own."""
    log = AclLog()
    note(log, b"get")
    note(log, b"set")
    note(log, b"get", NOW_MS + 60_000)
    at_the_limit = [(entry[b"object"], entry[b"count"]) for entry in shown(log)]
    note(log, b"get", NOW_MS + 120_001)

    assert at_the_limit == [(b"get", 2), (b"set", 1)]
    assert [(entry[b"object"], entry[b"count"]) for entry in shown(log)] == [(b"get", 1), (b"get", 2), (b"set", 1)]


def test_the_log_keeps_no_more_than_it_may() -> None:
    """At the limit all are there; one past it the oldest goes; a smaller limit cuts with the next one; 0 keeps none."""
    log = AclLog(entries_max=3)
    for number in range(3):
        note(log, b"%d" % number)
    at_the_limit = [entry[b"object"] for entry in shown(log)]
    note(log, b"3")
    past_it = [entry[b"object"] for entry in shown(log)]
    log.entries_max = 1
    uncut = [entry[b"object"] for entry in shown(log)]
    note(log, b"4")
    cut = [entry[b"object"] for entry in shown(log)]
    log.entries_max = 0
    note(log, b"5")

    assert (at_the_limit, past_it, uncut, cut, shown(log)) == (
        [b"2", b"1", b"0"],
        [b"3", b"2", b"1"],
        [b"3", b"2", b"1"],
        [b"4"],
        [],
    )


def test_the_log_keeps_the_beginning_of_what_is_long() -> None:
    """1024 bytes of a key are kept whole, one more is cut; the entries do not grow with what clients send."""
    log = AclLog()
    note(log, b"a" * 1024)
    note(log, b"b" * 1025)

    assert [entry[b"object"] for entry in shown(log)] == [b"b" * 1024, b"a" * 1024]


def test_the_log_can_be_asked_for_some_and_be_emptied() -> None:
    """`ACL LOG count`, with a negative count for none, and RESET."""
    log = AclLog()
    note(log, b"get")
    note(log, b"key", reason="key")
    some = [len(shown(log, count)) for count in (-1, 0, 1, 5)]

    log.reset()

    assert (some, shown(log)) == ([0, 0, 1, 2], [])


# ---------------------------------------------------------------------- secrets


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("AUTH pw", "AUTH (redacted)"),
        ("auth u pw", "auth (redacted) (redacted)"),
        ("AUTH u pw more", "AUTH (redacted) (redacted) (redacted)"),
        ("HELLO 3 AUTH u pw SETNAME n", "HELLO 3 AUTH (redacted) (redacted) SETNAME n"),
        ("HELLO 3 SETNAME n auth u pw", "HELLO 3 SETNAME n auth (redacted) (redacted)"),
        ("HELLO 3 AUTH u", "HELLO 3 AUTH (redacted)"),
        ("HELLO 3", "HELLO 3"),
        ("ACL SETUSER u on >pw", "ACL SETUSER (redacted) (redacted) (redacted)"),
        ("acl getuser u", "acl getuser (redacted)"),
        ("ACL DELUSER u", "ACL DELUSER (redacted)"),
        ("ACL LIST", "ACL LIST"),
        ("ACL", "ACL"),
        ("CONFIG SET requirepass pw", "CONFIG SET requirepass (redacted)"),
        ("CONFIG SET maxclients 5 RequirePass pw", "CONFIG SET maxclients 5 RequirePass (redacted)"),
        ("CONFIG SET maxclients 5", "CONFIG SET maxclients 5"),
        ("CONFIG SET requirepass", "CONFIG SET requirepass"),
        ("CONFIG GET requirepass", "CONFIG GET requirepass"),
        ("SET auth pw", "SET auth pw"),
    ],
)
def test_secrets_are_not_shown(command: str, expected: str) -> None:
    """What MONITOR and SLOWLOG show of a command that has a password in it."""
    words = command.encode().split()

    assert redacted(words) == expected.encode().split()
    assert words == command.encode().split()


# ---------------------------------------------------------------------- protected mode


@pytest.mark.parametrize("is_loopback", [True, False])
@pytest.mark.parametrize("is_protected", [True, False])
@pytest.mark.parametrize("password", ["", "secret"])
def test_only_this_machine_may_connect_without_a_password(
    password: str,
    is_protected: bool,
    is_loopback: bool,
) -> None:
    """Refused is exactly one case: protected mode, no password, another machine."""
    refusal = may_connect(Acl(None, password).default_user, is_loopback=is_loopback, is_protected=is_protected)

    assert (refusal is not None) == (is_protected and not is_loopback and not password)
    assert refusal is None or refusal.startswith("DENIED Running in protected mode because protected mode is enabled")
