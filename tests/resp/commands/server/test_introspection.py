"""COMMAND: every entry follows from usage lines and a few tables, and is held to the oracle's."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import resp.commands  # noqa: F401 - fills the registries
from engine.commands.registry import SPECS, Spec
from engine.errors import CommandError
from engine.values.replies import Map, Reply, Status
from engine.values.replies import Set as SetOf
from resp.catalog.arguments import ArgumentDoc, KeyRange, arguments, key_ranges, legacy_range
from resp.catalog.descriptions import Description, catalog
from resp.catalog.server_registry import SERVER_SPECS, ServerSpec
from tests.real.oracle import Connection, ErrorReply, MapReply, SetReply, SimpleString

SESSION: Any = SimpleNamespace()
"""COMMAND asks nothing of its client."""

OTHER_FLAGS = frozenset(
    {"allow_busy", "noscript", "skip_commandlog", "skip_slowlog", "skip_monitor", "sentinel", "no_multi"}
)
"""Flags that are not compared: of scripts, which there are none of, and of what Redis leaves out of its own logs."""


@pytest.fixture(scope="module")
def entries() -> dict[str, Description]:
    """Every command and subcommand that Redis has too, by name."""
    whole = [each for entry in catalog().values() for each in (entry, *entry.subcommands)]
    specs: list[Spec | ServerSpec] = [*SPECS.values(), *SERVER_SPECS.values()]
    words = {word for spec in specs if spec.of == "redis" for word in (spec.name, spec.name.partition(b"|")[0])}
    return {entry.name: entry for entry in whole if entry.name.encode().upper() in words}


@pytest.fixture
def theirs(oracle: Connection) -> dict[str, list[Any]]:
    """The oracle's entries by name, in RESP3."""
    oracle.call("HELLO", "3")
    whole = [each for entry in oracle.call("COMMAND") for each in (entry, *entry[9])]
    return {entry[0].decode(): entry for entry in whole}


def _words(reply: SetReply) -> set[str]:
    return {member.text.decode() for member in reply.members}


def run(name: str, *args: str) -> Any:
    """What the handler of a server's command answers, as the oracle's client would read it in RESP3."""
    try:
        return plain(SERVER_SPECS[name.encode()].handler(SESSION, [arg.encode() for arg in args]))
    except CommandError as error:
        return ErrorReply(error.message.encode())


def plain(reply: Reply) -> Any:
    """A reply of ours as the classes of the oracle's client."""
    if isinstance(reply, Map):
        return MapReply([(plain(name), plain(value)) for name, value in reply])
    if isinstance(reply, SetOf):
        return SetReply(list(map(plain, reply)))
    if isinstance(reply, Status):
        return SimpleString(bytes(reply))
    return list(map(plain, reply)) if isinstance(reply, list) else reply


# ---------------------------------------------------------------------- beside the oracle


def test_every_command_is_the_oracles(entries: dict[str, Description], theirs: dict[str, list[Any]]) -> None:
    """There is no command that the oracle does not know, but for those that are slotlog's own."""
    assert [] == sorted(set(entries) - set(theirs))


def test_arity_is_the_oracles(entries: dict[str, Description], theirs: dict[str, list[Any]]) -> None:
    """Each command takes as many words as the oracle's."""
    assert {name: theirs[name][1] for name in entries} == {name: entry.arity for name, entry in entries.items()}


def test_keys_are_the_oracles(entries: dict[str, Description], theirs: dict[str, list[Any]]) -> None:
    """First key, last key and step of each command are the oracle's."""
    different = {
        name: (entry.first_last_step, theirs[name][3:6])
        for name, entry in entries.items()
        if list(entry.first_last_step) != theirs[name][3:6]
    }

    assert {} == different


def test_key_specs_are_the_oracles(entries: dict[str, Description], theirs: dict[str, list[Any]]) -> None:
    """Where the keys of each command stand and what is done to them is what the oracle says, its notes left aside."""
    described = {name: _described(name) for name in entries}
    different = {
        name: (ours, theirs_of_it)
        for name, entry in described.items()
        if (ours := _key_specs(entry)) != (theirs_of_it := _key_specs(theirs[name]))
    }

    assert {} == different


def _described(name: str) -> list[Any]:
    (entry,) = run("COMMAND|INFO", name)
    return list(entry)


def _key_specs(entry: list[Any]) -> list[dict[bytes, Any]]:
    specs = []
    for spec in entry[8].members:
        fields = {name: value for name, value in spec.pairs if name != b"notes"}
        fields[b"flags"] = _words(fields[b"flags"])
        specs.append(fields)
    return specs


def test_flags_are_the_oracles(entries: dict[str, Description], theirs: dict[str, list[Any]]) -> None:
    """The flags of each command are the oracle's, but for those that mean nothing here."""
    different = {
        name: set(entry.flags) ^ _words(theirs[name][2])
        for name, entry in entries.items()
        if (set(entry.flags) ^ _words(theirs[name][2])) - OTHER_FLAGS
    }

    assert {} == different


def test_shape_of_an_entry_is_the_oracles(oracle: Connection) -> None:
    """The whole entry of GET is the oracle's, type of every field included."""
    oracle.call("HELLO", "3")

    assert _sorted(oracle.call("COMMAND", "INFO", "get")) == _sorted(run("COMMAND|INFO", "get"))


def _sorted(reply: Any) -> Any:
    """Sets in one order."""
    if isinstance(reply, SetReply):
        return ("set", sorted((_sorted(member) for member in reply.members), key=repr))
    if isinstance(reply, MapReply):
        return ("map", [(name, _sorted(value)) for name, value in reply.pairs])
    return list(map(_sorted, reply)) if type(reply) is list else reply


GETKEYS = (
    "get a",
    "mset a 1 b 2",
    "del a b c",
    "blpop a b 0",
    "msetex 2 a 1 b 2 ex 10",
    "msetex 3 a 1 b 2",
    "sort a",
    "sort a by store limit 0 store get store",
    "sort a by x store b store c",
    "sort_ro a by b",
    "georadius a 1 2 3 m store b storedist c",
    "georadiusbymember a store 3 m count 1 any STORE b",
    "georadius_ro a 1 2 3 m",
    "geosearchstore a b frommember c byradius 1 m",
    "pfmerge a b c",
    "lmove a b left right",
    "lmpop 2 a b left",
    "lmpop 5 a left",
    "lmpop x a left",
    "object encoding a",
    "memory usage a",
    "set a b ex 10",
    "GET a",
    "ping",
    "get",
    "nosuch a",
    "config get a",
    "config",
)


@pytest.mark.parametrize("command", GETKEYS)
def test_getkeys_answers_as_the_oracle(oracle: Connection, command: str) -> None:
    """The keys of a command, or the text of a refusal, are the oracle's."""
    assert oracle.call("COMMAND", "GETKEYS", *command.split()) == run("COMMAND|GETKEYS", *command.split())


@pytest.mark.parametrize(
    "command",
    ["set a b", "lmove a b left right", "lmpop 2 a b left", "del a b", "get a", "sort a store b", "msetex 1 a b nx"],
)
def test_getkeysandflags_answers_as_the_oracle(oracle: Connection, command: str) -> None:
    """The keys of a command with what is done to them are the oracle's; an option that is not there changes nothing."""
    oracle.call("HELLO", "3")
    ours = run("COMMAND|GETKEYSANDFLAGS", *command.split())
    if command.startswith("set"):  # the oracle looks at its arguments; ours says what SET may do
        ours = [[b"a", SetReply([SimpleString(b"OW"), SimpleString(b"update")])]]

    assert _sorted(oracle.call("COMMAND", "GETKEYSANDFLAGS", *command.split())) == _sorted(ours)


@pytest.mark.parametrize(
    "args", ["filterby foo bar", "filterby aclcat", "foo bar baz", "filterby module nosuch", "filterby aclcat nosuch"]
)
def test_list_refuses_as_the_oracle(oracle: Connection, args: str) -> None:
    """A filter that is none, or that nothing passes, has the oracle's reply."""
    assert oracle.call("COMMAND", "LIST", *args.split()) == run("COMMAND|LIST", *args.split())


@pytest.mark.parametrize("args", ["", "filterby pattern c*get", "filterby aclcat blocking", "FILTERBY ACLCAT Fast"])
def test_list_names_what_the_oracle_names(oracle: Connection, entries: dict[str, Description], args: str) -> None:
    """The list, and each filter, gives what the oracle gives, of the commands that are here."""
    names = {name.decode() for name in oracle.call("COMMAND", "LIST", *args.split())}
    ours = {name.decode() for name in run("COMMAND|LIST", *args.split())}

    assert names & set(entries) == ours & set(entries)


def test_unknown_command_is_null(oracle: Connection) -> None:
    """COMMAND INFO of an unknown name is null, COMMAND DOCS leaves it out."""
    oracle.call("HELLO", "3")

    assert oracle.call("COMMAND", "INFO", "nosuch", "config|nosuch") == run("COMMAND|INFO", "nosuch", "config|nosuch")
    assert oracle.call("COMMAND", "DOCS", "nosuch") == run("COMMAND|DOCS", "nosuch")


def test_count_is_that_of_the_list() -> None:
    """COMMAND COUNT counts what COMMAND describes: containers once, their subcommands not."""
    assert len(run("COMMAND")) == run("COMMAND|COUNT") == len(catalog())


def test_unknown_subcommand_is_refused(oracle: Connection) -> None:
    """COMMAND with a word that is no subcommand has the oracle's text."""
    assert oracle.call("COMMAND", "nosuch") == run("COMMAND", "nosuch")


# ---------------------------------------------------------------------- documents


def test_documents_have_the_oracles_fields(oracle: Connection, entries: dict[str, Description]) -> None:
    """What a command is has the oracle's names; its group and its release are the oracle's own."""
    oracle.call("HELLO", "3")
    names = ["get", "set", "config", "lmpop", "mset"]
    ours = {name: dict(fields.pairs) for name, fields in run("COMMAND|DOCS", *names).pairs}
    theirs = {name: dict(fields.pairs) for name, fields in oracle.call("COMMAND", "DOCS", *names).pairs}

    assert list(theirs) == list(ours)
    for name, fields in ours.items():
        assert (name, []) == (name, sorted(set(fields) - set(theirs[name])))
        assert (name, theirs[name][b"group"]) == (name, fields[b"group"])
        assert fields[b"complexity"]
        if name != b"config":
            assert (name, theirs[name][b"since"]) == (name, fields[b"since"])


def test_arguments_have_the_oracles_shape(oracle: Connection) -> None:
    """Arguments are described with the field names, types and flags that the oracle uses, down to the innermost."""
    oracle.call("HELLO", "3")
    theirs = list(_arguments(oracle.call("COMMAND", "DOCS")))
    ours = list(_arguments(run("COMMAND|DOCS")))

    for field in (b"type", b"flags"):
        assert set() == {str(each.get(field)) for each in ours} - {str(each.get(field)) for each in theirs}
    assert set() == {name for each in ours for name in each} - {name for each in theirs for name in each}


def _arguments(documents: MapReply) -> Iterator[dict[bytes, Any]]:
    """Every argument of every command, those inside of others included."""
    for _, fields in documents.pairs:
        named = dict(fields.pairs)
        yield from _inner(named.get(b"arguments", []))
        yield from _arguments(named.get(b"subcommands", MapReply([])))


def _inner(items: list[Any]) -> Iterator[dict[bytes, Any]]:
    for item in items:
        named = dict(item.pairs)
        yield named
        yield from _inner(named.get(b"arguments", []))


def test_every_command_says_what_it_does() -> None:
    """No command is without a summary, a group and a release that brought it."""
    whole = [each for entry in catalog().values() for each in (entry, *entry.subcommands)]

    assert [] == [entry.name for entry in whole if not (entry.summary and entry.group and entry.since)]


# ---------------------------------------------------------------------- usage lines


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ("GET key", [ArgumentDoc("key", "key")]),
        ("DEL key [key ...]", [ArgumentDoc("key", "key", multiple=True)]),
        ("PING [message]", [ArgumentDoc("message", "string", optional=True)]),
        (
            "SCAN cursor [COUNT count]",
            [ArgumentDoc("cursor", "integer"), ArgumentDoc("count", "integer", "COUNT", True)],
        ),
        ("X [GET]", [ArgumentDoc("get", "pure-token", "GET", optional=True)]),
        ("X [name ...]", [ArgumentDoc("name", "string", optional=True, multiple=True)]),
        ("X [ID id [ID id ...]]", [ArgumentDoc("id", "integer", "ID", optional=True, multiple=True)]),
    ],
)
def test_usage_line_gives_arguments(usage: str, expected: list[ArgumentDoc]) -> None:
    """A usage line is read as the arguments that it shows."""
    assert tuple(expected) == arguments(usage, 1)


@pytest.mark.parametrize("usage", ["X <LEFT|RIGHT>", "X LEFT|RIGHT"])
def test_choice_needs_no_brackets(usage: str) -> None:
    """A choice of words is one argument, in angle brackets or without."""
    parts = (ArgumentDoc("left", "pure-token", "LEFT"), ArgumentDoc("right", "pure-token", "RIGHT"))

    assert (ArgumentDoc("left-right", "oneof", parts=parts),) == arguments(usage, 1)


def test_dots_behind_several_alternatives_repeat_all_of_them() -> None:
    """`[GET offset|SET offset value ...]` is a choice that may be made again, as Redis has BITFIELD's."""
    (choice,) = arguments("X [GET offset|SET offset value ...]", 1)

    assert ("oneof", True, True) == (choice.kind, choice.optional, choice.multiple)
    assert [False, False] == [part.multiple for part in choice.parts]


def test_pairs_are_a_block_that_repeats() -> None:
    """`field value [field value ...]` is one block that may be repeated."""
    parts = (ArgumentDoc("field", "string"), ArgumentDoc("value", "string"))

    assert (
        ArgumentDoc("field-value", "block", multiple=True, parts=parts)
        == arguments("HSET key field value [field value ...]", 1)[1]
    )


@pytest.mark.parametrize(
    ("usage", "ranges", "legacy"),
    [
        ("PING", [], (0, 0, 0)),
        ("GET key", [KeyRange(1)], (1, 1, 1)),
        ("BLPOP key [key ...] timeout", [KeyRange(1, -2)], (1, -2, 1)),
        ("MSET key value [key value ...]", [KeyRange(1, -1, 2)], (1, -1, 2)),
        ("RENAME key newkey", [KeyRange(1), KeyRange(2)], (1, 2, 1)),
        ("SDIFFSTORE destination key [key ...]", [KeyRange(1), KeyRange(2, -1)], (1, -1, 1)),
        ("LMPOP numkeys key [key ...] <LEFT|RIGHT>", [KeyRange(1, counted=True)], (0, 0, 0)),
        ("ZUNIONSTORE destination numkeys key [key ...]", [KeyRange(1), KeyRange(2, counted=True)], (1, 1, 1)),
        ("SUNSUBSCRIBE [shardchannel [shardchannel ...]]", [KeyRange(1, -1)], (1, -1, 1)),
    ],
)
def test_usage_line_gives_keys(usage: str, ranges: list[KeyRange], legacy: tuple[int, int, int]) -> None:
    """Where keys stand follows from the words of the usage line."""
    assert (ranges, legacy) == (key_ranges(usage, 1), legacy_range(key_ranges(usage, 1)))
