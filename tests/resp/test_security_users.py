"""The users of a running server, their rights, and the ACL commands over the wire."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.real.oracle import Connection, ErrorReply, MapReply, SetReply, SimpleString, request
from tests.real.process import ServerError
from tests.resp.secured import NO_CHANNEL, NO_DATABASE, NO_KEY, OK, WRONGPASS, Secured, closed_silently


def is_closed(connection: Connection) -> bool:
    """Whether the server has closed it, or does within the client's patience."""
    try:
        connection.pipeline([["PING"]])
    except (ServerError, OSError):
        return True
    return False


@pytest.mark.parametrize("protocol", ["2", "3"])
def test_a_user_may_do_what_its_rules_say(secured: Secured, protocol: str) -> None:
    """Commands by category and name, keys to read and to write, channels, databases: each refusal with its text."""
    rules = ("+@read", "+set", "+publish", "+select", "+config|get", "~r*", "%R~ro*", "%W~wo*", "&news", "db=0,1")
    with closing(secured.login("limited", *rules, "+hello")) as client:
        client.call("HELLO", protocol)
        allowed = [["GET", "r"], ["GET", "ro"], ["SET", "wo", "1"], ["SELECT", "1"], ["SELECT", "0"], ["LLEN", "wo1"]]

        assert [reply for reply in client.pipeline(allowed) if isinstance(reply, ErrorReply)] == [
            ErrorReply(b"WRONGTYPE Operation against a key holding the wrong kind of value")
        ] * 0
        assert client.pipeline(
            [
                *(["GET", "x"], ["GET", "wo"], ["SET", "xro", "1"], ["SET", "wo", "1", "GET"], ["MGET", "r", "x"]),
                *(["PUBLISH", "news", "m"], ["PUBLISH", "olds", "m"], ["SELECT", "2"], ["LPUSH", "r", "1"]),
                *(["CONFIG", "SET", "timeout", "0"], ["ACL", "WHOAMI"], ["FLUSHALL"]),
            ]
        ) == [
            *(NO_KEY, NO_KEY, NO_KEY, NO_KEY, NO_KEY),
            *(0, NO_CHANNEL, NO_DATABASE),
            *(
                ErrorReply(b"NOPERM User limited has no permissions to run the '%b' command" % command)
                for command in (b"lpush", b"config|set", b"acl|whoami", b"flushall")
            ),
        ]


_SORTS = (
    *("SORT l", "SORT l BY w_*", "SORT l BY nosort", "SORT l GET #", "SORT l GET nothing", "SORT l STORE d"),
    *("SORT l BY w_* STORE d", "SORT_RO l GET w_*", "SORT l foo BY w_*", "SORT l BY w_* foo", "SORT x BY w_*"),
)


@pytest.mark.parametrize(
    "rules",
    [
        *("~*", "%R~*", "~l", "~l ~d", "%R~* %W~d", "%W~* ~l", "~l (~* +sort)", "~l (%R~* +sort)", "~l (~* +get)"),
        *("allkeys", "~l ~**", "~l ~w_*"),
    ],
)
def test_sort_reads_no_keys_behind_the_rules(secured: Secured, oracle: Connection, rules: str) -> None:
    """BY and GET read whatever a pattern makes of the elements, so they are for those alone who may read every key."""
    words = rules.replace("(", "|(").split("|")
    given = [*words[0].split(), *words[1:]]
    name, lines = "-".join(["sorting", *rules.split()]), [line.split() for line in _SORTS]
    oracle.pipeline([["FLUSHALL"], ["RPUSH", "l", "1"], ["ACL", "SETUSER", "sorting", "on", "nopass", "+@all", *given]])
    _, *theirs = oracle.pipeline([["AUTH", "sorting", "x"], *lines])
    oracle.pipeline([["AUTH", "default", "x"], ["ACL", "DELUSER", "sorting"]])
    with closing(secured.admin()) as admin, closing(secured.login(name, "+@all", *given)) as client:
        admin.pipeline([["DEL", "l", "d"], ["RPUSH", "l", "1"]])

        assert theirs == client.pipeline(lines)


def test_once_is_no_way_around_the_rules_of_sort(secured: Secured) -> None:
    """A SORT that is to be done only once is looked at as any other."""
    with closing(secured.login("sorting-once", "+@all", "~l", "~d")) as client:
        reply = client.call("SLOTLOG", "ONCE", "id", "SORT", "l", "BY", "w_*", "STORE", "d")

    assert reply == ErrorReply(b"ERR BY option of SORT denied due to insufficient ACL permissions.")


def test_once_is_no_way_around_the_rules_of_scripts(secured: Secured) -> None:
    """A script that is to be done only once has its user's rights, and no others."""
    with closing(secured.login("scripts-once", "+@all", "-set", "~o*")) as client:
        once = ["SLOTLOG", "ONCE", "script", "EVAL"]
        reply = client.call(*once, "return redis.pcall('SET', KEYS[1], 1).err", "1", "o")
        other = client.call(*once[:2], "another", "EVAL", "return redis.pcall('DEL', 'x').err", "0")

    failure = b"ERR ACL failure in script: "
    assert reply == failure + b"User scripts-once has no permissions to run the 'set' command"
    assert other == failure + b"No permissions to access a key"


def test_a_refusal_inside_multi_aborts_it(secured: Secured) -> None:
    """What is not allowed is not queued, and EXEC says so; nothing of it was done."""
    with closing(secured.login("queueing", "+@all", "~q*")) as client:
        assert client.pipeline([["MULTI"], ["SET", "q", "1"], ["SET", "x", "1"], ["EXEC"], ["GET", "q"]]) == [
            OK,
            SimpleString(b"QUEUED"),
            NO_KEY,
            ErrorReply(b"EXECABORT Transaction discarded because of previous errors."),
            None,
        ]


def test_rights_that_are_lost_before_exec_abort_it(secured: Secured) -> None:
    """A command that was allowed when queued is not run when it no longer is, nor the rest; ACL LOG says where."""
    with closing(secured.login("slow", "+@all", "~s*")) as client, closing(secured.admin()) as admin:
        client.pipeline([["MULTI"], ["SET", "s1", "1"], ["APPEND", "s2", "1"]])
        admin.pipeline([["ACL", "SETUSER", "slow", "-append"], ["ACL", "LOG", "RESET"]])

        assert client.call("EXEC") == ErrorReply(
            b"EXECABORT Transaction discarded because of: "
            b"NOPERM User slow has no permissions to run the 'append' command"
        )
        assert client.call("MGET", "s1", "s2") == [None, None]
        ((*_, reason, _, context, _, denied),) = [entry[:8] for entry in admin.call("ACL", "LOG")]
    assert (reason, context, denied) == (b"command", b"multi", b"append")


def test_once_is_no_way_around_the_rules(secured: Secured) -> None:
    """SLOTLOG ONCE needs the rights of the command in it, for its name and for its keys, and none beyond them."""
    rules = ("+slotlog|once", "+set", "+multi", "+exec", "%W~o*")
    with closing(secured.login("retrying", *rules)) as client:
        assert client.pipeline(
            [
                ["SLOTLOG", "ONCE", "1", "SET", "o", "1"],
                ["SLOTLOG", "ONCE", "2", "SET", "x", "1"],
                ["SLOTLOG", "ONCE", "3", "SET", "o", "1", "GET"],
                ["SLOTLOG", "ONCE", "4", "FLUSHALL"],
                ["SLOTLOG", "ONCE", "5", "nothing"],
                ["SLOTLOG", "ONCE", "5", "CONFIG", "SET"],
                ["SLOTLOG", "ONCE", "5", "ACL"],
                ["SLOTLOG", "ONCE", "5", "SET", "x"],
                ["MULTI"],
                ["SLOTLOG", "ONCE", "6", "DEL", "o"],
                ["EXEC"],
            ]
        ) == [
            OK,
            NO_KEY,
            NO_KEY,
            ErrorReply(b"NOPERM User retrying has no permissions to run the 'flushall' command"),
            ErrorReply(b"ERR SLOTLOG ONCE takes a command that writes"),
            ErrorReply(b"ERR SLOTLOG ONCE takes a command that writes"),
            ErrorReply(b"ERR SLOTLOG ONCE takes a command that writes"),
            ErrorReply(b"ERR wrong number of arguments for 'set' command"),
            OK,
            ErrorReply(b"ERR Command not allowed inside a transaction"),
            ErrorReply(b"EXECABORT Transaction discarded because of previous errors."),
        ]


def test_changes_reach_open_connections_at_once(secured: Secured) -> None:
    """Taking a command away, giving it back, and switching the user off, which only keeps others out."""
    with closing(secured.login("changing", "+@all", "~*")) as client, closing(secured.admin()) as admin:
        first = client.call("GET", "a")
        admin.call("ACL", "SETUSER", "changing", "-get")
        second = client.call("GET", "a")
        admin.call("ACL", "SETUSER", "changing", "+get", "off")
        third = client.call("GET", "a")
        with closing(secured.connect()) as other:
            off = other.call("AUTH", "changing", "changing")

    refused = ErrorReply(b"NOPERM User changing has no permissions to run the 'get' command")
    assert (first, second, third, off) == (None, refused, None, WRONGPASS)


def test_clients_of_a_deleted_user_are_closed(secured: Secured) -> None:
    """Also one that deletes itself, after its reply; the others stay."""
    with (
        closing(secured.login("goes", "+@all", "~*")) as client,
        closing(secured.login("stays", "+@all", "~*")) as other,
    ):
        assert client.call("ACL", "DELUSER", "goes", "nobody") == 1
        assert is_closed(client)
        assert other.call("GET", "a") is None


def test_a_client_of_a_deleted_user_is_closed_while_it_waits(secured: Secured) -> None:
    """Blocked in BLPOP: closed all the same, and the next element is not given to it."""
    with closing(secured.login("waits", "+@all", "~*")) as popping, closing(secured.admin()) as admin:
        popping._socket.sendall(request(["BLPOP", "comes-later", "0"]))
        while b"blocked_clients:0\r" in admin.call("INFO", "clients"):
            pass
        admin.call("ACL", "DELUSER", "waits")

        assert closed_silently(popping._socket)
        assert admin.call("RPUSH", "comes-later", "element") == 1
        assert admin.call("LPOP", "comes-later") == b"element"


def test_a_listener_that_may_not_listen_any_more_is_closed(secured: Secured) -> None:
    """Its channel was taken from its user; a listener of a channel that stays is not closed."""
    with closing(secured.login("listens", "+@all", "&a", "&b")) as gone, closing(secured.admin()) as admin:
        stays = secured.connect()
        stays.call("AUTH", "listens", "listens")
        stays.call("SUBSCRIBE", "b")
        gone.call("SUBSCRIBE", "a")

        admin.call("ACL", "SETUSER", "listens", "resetchannels", "&b")

        assert closed_silently(gone._socket)
        assert stays.call("PING") == [b"pong", b""]
        stays.close()


def test_users_are_saved_and_loaded(secured: Secured) -> None:
    """SAVE writes what LIST shows; LOAD brings it back, names wrong lines, and changes nothing when there is one."""
    with closing(secured.admin()) as admin:
        admin.call("ACL", "SETUSER", "saved", "on", ">saved", "~s", "+get")
        saved = admin.call("ACL", "SAVE")
        listed = admin.call("ACL", "LIST")
        admin.call("ACL", "SETUSER", "unsaved", "on")
        admin.call("ACL", "SETUSER", "saved", "+set")
        loaded = admin.call("ACL", "LOAD")
        after = admin.call("ACL", "LIST")
        text = secured.users.read_text()
        secured.users.write_text("user saved on\nuser wrong +nocommand\n")
        refused = admin.call("ACL", "LOAD")
        secured.users.write_text(text)

        assert (saved, loaded, after) == (OK, OK, listed)
        assert text.encode() == b"".join(line + b"\n" for line in listed)
        assert b"users.acl:2: Error in applying operation '+nocommand'" in refused.text
        assert admin.call("ACL", "LIST") == listed


def test_refusals_are_noted(secured: Secured) -> None:
    """ACL LOG tells of a wrong password, a command, a key and a channel, the newest first, and INFO counts them."""
    with closing(secured.login("noted", "+get", "+publish", "~a", "&a")) as client, closing(secured.admin()) as admin:
        admin.call("ACL", "LOG", "RESET")
        client.pipeline(
            [["GET", "b"], ["GET", "b"], ["PUBLISH", "b", "m"], ["SET", "a", "1"], ["AUTH", "noted", "wrong"]]
        )
        entries = [dict(zip(entry[::2], entry[1::2], strict=True)) for entry in admin.call("ACL", "LOG")]

        assert [tuple(entry[key] for key in (b"reason", b"object", b"username", b"count")) for entry in entries] == [
            (b"auth", b"AUTH", b"noted", 1),
            (b"command", b"set", b"noted", 1),
            (b"channel", b"b", b"noted", 1),
            (b"key", b"b", b"noted", 2),
        ]
        assert all(b"user=noted" in entry[b"client-info"] for entry in entries)
        info = admin.call("INFO", "stats")
        counted = dict(re.findall(rb"acl_access_denied_(\w+):(\d+)\r", info))
        assert [] == [name for name in (b"auth", b"cmd", b"key", b"channel") if int(counted[name]) < 1]


CONVERSATION = [
    *(
        ["ACL", "WHOAMI"],
        ["ACL", "USERS"],
        ["ACL", "CAT"],
        ["ACL", "CAT", "nothing"],
        ["ACL", "CAT", "read", "x"],
        ["ACL"],
    ),
    *(
        ["ACL", "NOTHING"],
        ["ACL", "GETUSER", "nobody"],
        ["ACL", "GETUSER"],
        ["ACL", "DELUSER", "default"],
        ["ACL", "DELUSER"],
    ),
    *(["ACL", "SETUSER", "t", "on", ">pw", "~a*", "%R~b*", "&c", "+@read", "(+set ~z)"], ["ACL", "GETUSER", "t"]),
    *(
        ["ACL", "SETUSER"],
        ["ACL", "SETUSER", "t", "nonsense"],
        ["ACL", "SETUSER", "t", "(+get"],
        ["ACL", "SETUSER", "a b"],
    ),
    *(["ACL", "DRYRUN", "t", "get", "a"], ["ACL", "DRYRUN", "t", "get", "q"], ["ACL", "DRYRUN", "t", "set", "z", "1"]),
    *(["ACL", "DRYRUN", "t", "get"], ["ACL", "DRYRUN", "t", "nothing"], ["ACL", "DRYRUN", "nobody", "get", "a"]),
    *(
        ["ACL", "DRYRUN", "t", "config"],
        ["ACL", "DRYRUN", "t", "config", "no"],
        ["ACL", "DRYRUN", "t", "acl", "whoami"],
    ),
    *(["ACL", "DRYRUN", "t"], ["ACL", "GENPASS", "0"], ["ACL", "GENPASS", "4097"], ["ACL", "GENPASS", "x"]),
    *(
        ["ACL", "GENPASS", "1", "2"],
        ["ACL", "LOG", "RESET"],
        ["ACL", "LOG"],
        ["ACL", "LOG", "x"],
        ["ACL", "LOG", "1", "2"],
    ),
    *(["ACL", "LOAD"], ["ACL", "SAVE"], ["ACL", "WHOAMI", "x"], ["ACL", "LIST", "x"], ["ACL", "HELP", "x"]),
    *(["AUTH", "x"], ["AUTH", "t", "no"], ["AUTH"], ["AUTH", "a", "b", "c"], ["ACL", "DELUSER", "t", "none"]),
]


@pytest.mark.parametrize("protocol", ["2", "3"])
def test_the_acl_commands_answer_as_the_oracle_does(tmp_path: Path, oracle: Connection, protocol: str) -> None:
    """The same conversation, in RESP2 and RESP3, with equal replies."""
    with Secured(tmp_path) as server, closing(server.connect()) as ours:
        for connection in (ours, oracle):
            connection.call("HELLO", protocol)

        for command in CONVERSATION:
            assert (command, ours.call(*command)) == (command, oracle.call(*command))


def test_generated_passwords_have_the_wanted_length(secured: Secured) -> None:
    """One hexadecimal digit for each four bits, rounded up, and another one each time."""
    with closing(secured.admin()) as admin:
        passwords = [admin.call("ACL", "GENPASS", bits) for bits in (1, 4, 5, 8, 9, 4096)]

        assert [len(password) for password in passwords] == [1, 1, 2, 2, 3, 1024]
        assert len(admin.call("ACL", "GENPASS")) == 64
        assert admin.call("ACL", "GENPASS") != admin.call("ACL", "GENPASS")


def test_replies_of_getuser_are_maps_and_sets_in_resp3(secured: Secured) -> None:
    """The shapes that a RESP3 client gets: a map, its flags a set, its selectors maps."""
    with closing(secured.admin()) as admin:
        admin.call("ACL", "SETUSER", "shown", "reset", "on", "nopass", "~a", "(+get ~b)")
        admin.call("HELLO", "3")
        reply: Any = admin.call("ACL", "GETUSER", "shown")

    assert reply.pairs[0] == (b"flags", SetReply([b"on", b"nopass"]))
    assert [name for name, _ in reply.pairs] == [
        *(b"flags", b"passwords", b"commands", b"keys", b"channels", b"databases", b"selectors"),
    ]
    assert isinstance(dict(reply.pairs)[b"selectors"][0], MapReply)
