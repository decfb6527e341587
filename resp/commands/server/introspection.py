"""COMMAND: describes the server's commands. Source: https://valkey.io/commands/command/."""

from __future__ import annotations

from functools import cache
from typing import Final

from engine.commands.key_access import Access
from engine.commands.registry import SPECS
from engine.errors import SYNTAX, CommandError
from engine.values.glob import matcher
from engine.values.replies import Map, Reply, Set, Status
from resp.catalog.arguments import ArgumentDoc, KeyRange, arguments
from resp.catalog.descriptions import Description, catalog
from resp.catalog.server_registry import find_subcommand
from resp.commands.handlers import server_command

_FLAGS: Final = ("loading", "stale")
_CATEGORIES: Final = ("slow", "connection")
_VARIABLE: Final = "variable_flags"
_NO_SUCH: Final = "ERR Invalid command specified"
_INVALID: Final = "ERR Invalid arguments specified for command"


@cache
def _catalog() -> dict[str, Description]:
    """Made once, when all commands are registered."""
    return catalog()


def _find(name: bytes) -> Description | None:
    """The command or subcommand of that name, in any case."""
    lower = name.decode(errors="surrogateescape").lower()
    container, _, subcommand = lower.partition("|")
    entry = _catalog().get(container)
    if entry is None or not subcommand:
        return entry
    return next((each for each in entry.subcommands if each.name == lower), None)


@server_command(
    "COMMAND [subcommand]",
    group="server",
    since="2.8.13",
    complexity="O(commands)",
    flags=_FLAGS,
    categories=_CATEGORIES,
    immediate=True,
)
def command_(client: object, args: list[bytes]) -> Reply:
    """Return details of every command."""
    if args:
        find_subcommand(b"COMMAND", args)
    return [_described(entry) for entry in _catalog().values()]


@server_command(
    "COMMAND COUNT",
    group="server",
    since="2.8.13",
    flags=_FLAGS,
    categories=_CATEGORIES,
    immediate=True,
    container=True,
)
def command_count(client: object, args: list[bytes]) -> Reply:
    """Return the number of commands."""
    return len(_catalog())


@server_command(
    "COMMAND INFO [command-name ...]",
    group="server",
    since="2.8.13",
    complexity="O(commands named)",
    flags=_FLAGS,
    categories=_CATEGORIES,
    immediate=True,
    container=True,
)
def command_info(client: object, args: list[bytes]) -> Reply:
    """Return details of these commands, or of all."""
    if not args:
        return [_described(entry) for entry in _catalog().values()]
    found = [_find(name) for name in args]
    return [None if entry is None else _described(entry) for entry in found]


@server_command(
    "COMMAND DOCS [command-name ...]",
    group="server",
    since="7.0.0",
    complexity="O(commands named)",
    flags=_FLAGS,
    categories=_CATEGORIES,
    immediate=True,
    container=True,
)
def command_docs(client: object, args: list[bytes]) -> Reply:
    """Return summary, group, first version and arguments of these commands, or of all."""
    found = [_find(name) for name in args] if args else list(_catalog().values())
    return Map([(entry.name.encode(), _documented(entry)) for entry in found if entry is not None])


@server_command(
    "COMMAND LIST [FILTERBY <MODULE module-name|ACLCAT category|PATTERN pattern>]",
    group="server",
    since="7.0.0",
    complexity="O(commands)",
    flags=_FLAGS,
    categories=_CATEGORIES,
    immediate=True,
    container=True,
)
def command_list(client: object, args: list[bytes]) -> Reply:
    """Return the names of all commands and subcommands, or of those that match a filter."""
    whole = [each for entry in _catalog().values() for each in (entry, *entry.subcommands)]
    if not args:
        return [entry.name.encode() for entry in whole]
    if len(args) != 3 or args[0].upper() != b"FILTERBY":
        raise CommandError(SYNTAX)
    kind, wanted = args[1].upper(), args[2]
    if kind == b"MODULE":
        return []
    if kind == b"ACLCAT":
        category = wanted.decode(errors="surrogateescape").lower()
        return [entry.name.encode() for entry in whole if category in entry.categories]
    if kind == b"PATTERN":
        fits = matcher(wanted.lower())
        return [entry.name.encode() for entry in whole if fits(entry.name.encode())]
    raise CommandError(SYNTAX)


@server_command(
    "COMMAND GETKEYS command [arg ...]",
    group="server",
    since="2.8.13",
    complexity="O(arguments)",
    flags=_FLAGS,
    categories=_CATEGORIES,
    immediate=True,
    container=True,
)
def command_getkeys(client: object, args: list[bytes]) -> Reply:
    """Return the keys of a command."""
    return [key for key, _ in _keys_in(args)]


@server_command(
    "COMMAND GETKEYSANDFLAGS command [arg ...]",
    group="server",
    since="7.0.0",
    complexity="O(arguments)",
    flags=_FLAGS,
    categories=_CATEGORIES,
    immediate=True,
    container=True,
)
def command_getkeysandflags(client: object, args: list[bytes]) -> Reply:
    """Return the keys of a command, with its access to each."""
    found = _keys_in(args)
    return [[key, _statuses(_flags_in_use(args, flags))] for key, flags in found]


def _flags_in_use(words: list[bytes], flags: Access) -> Access:
    """What these words do to a key, where that depends on them."""
    if _VARIABLE not in flags:
        return flags
    access_by = SPECS[words[0].upper()].access_by
    return tuple(flag for flag in flags if flag != _VARIABLE) if access_by is None else access_by(words[1:])


def _keys_in(words: list[bytes]) -> list[tuple[bytes, Access]]:
    """The keys of a command with their flags.

    Raises:
        CommandError: no such command, no keys, or a wrong number of words.
    """
    entry = _find(words[0])
    if entry is not None and entry.subcommands and len(words) > 1:
        entry = _find(b"%b|%b" % (words[0], words[1])) or entry
    if entry is None:
        raise CommandError(_NO_SUCH)
    if all("not_key" in flags for _, flags in entry.keys):
        raise CommandError("ERR The command has no key arguments")
    if not entry.takes(len(words)):
        raise CommandError("ERR Invalid number of arguments specified for command")
    try:
        fixed = [(key, flags) for range_, flags in entry.keys if range_.known for key in _keys_of_range(range_, words)]
    except CommandError:
        if "no_mandatory_keys" not in entry.flags:  # as in Redis, of which such a command has none, whatever is wrong
            raise
        fixed = []
    spec = SPECS.get(entry.name.upper().encode())
    if spec is None or not spec.options:
        return fixed
    return fixed + [(key, entry.keys[-1][1]) for key in spec.keys(words[1:])[len(fixed) :]]


def _keys_of_range(range_: KeyRange, words: list[bytes]) -> list[bytes]:
    first = range_.first
    if range_.counted:
        count = words[first]
        if not count.isdigit() or not 0 < int(count) * range_.step < len(words) - first:
            raise CommandError(_INVALID)
        return words[first + 1 : first + 1 + int(count) * range_.step : range_.step]
    if range_.halved:
        return _keys_behind_keyword(range_, words)
    if range_.keyword:
        return []
    if range_.last >= 0:
        return words[first : first + range_.last + 1]
    return words[first : len(words) + range_.last + 1 : range_.step]


def _keys_behind_keyword(range_: KeyRange, words: list[bytes]) -> list[bytes]:
    """The first half of what follows the keyword."""
    upper = [word.upper() for word in words]
    if range_.keyword.encode() not in upper[range_.first :]:
        raise CommandError(_INVALID)
    behind = words[upper.index(range_.keyword.encode(), range_.first) + 1 :]
    return behind[: max(1, len(behind) // 2)]


# ---------------------------------------------------------------------- replies


def _described(entry: Description) -> Reply:
    """The ten fields of an entry."""
    first, last, step = entry.first_last_step
    return [
        entry.name.encode(),
        entry.arity,
        _statuses(entry.flags),
        first,
        last,
        step,
        _statuses(tuple(f"@{category}" for category in entry.categories)),
        Set([tip.encode() for tip in entry.tips]),
        Set([_key_spec(range_, flags) for range_, flags in entry.keys]),
        [_described(subcommand) for subcommand in entry.subcommands],
    ]


def _statuses(words: tuple[str, ...]) -> Set:
    return Set([Status(word.encode()) for word in words])


def _key_spec(range_: KeyRange, flags: tuple[str, ...]) -> Map:
    begin = _typed(b"index", [(b"index", range_.first)])
    if range_.keyword:
        begin = _typed(b"keyword", [(b"keyword", range_.keyword.encode()), (b"startfrom", range_.first)])
    if not range_.known:
        begin = find = _typed(b"unknown", [])
    elif range_.counted:
        find = _typed(b"keynum", [(b"keynumidx", 0), (b"firstkey", 1), (b"keystep", range_.step)])
    else:
        last, limit = (-1, 2) if range_.halved else (range_.last, 0)
        find = _typed(b"range", [(b"lastkey", last), (b"keystep", range_.step), (b"limit", limit)])
    return Map([(b"flags", _statuses(flags)), (b"begin_search", begin), (b"find_keys", find)])


def _typed(kind: bytes, spec: list[tuple[bytes, int | bytes]]) -> Map:
    return Map([(b"type", kind), (b"spec", Map(spec))])


def _documented(entry: Description) -> Map:
    fields: list[tuple[bytes, Reply]] = [
        (b"summary", " ".join(entry.summary.split()).encode()),
        (b"since", entry.since.encode()),
        (b"group", entry.group.encode()),
        (b"complexity", entry.complexity.encode()),
    ]
    items = arguments(entry.usage, entry.names)
    if items:
        fields.append((b"arguments", [_argument(item) for item in items]))
    if entry.subcommands:
        named = [(each.name.encode(), _documented(each)) for each in entry.subcommands]
        fields.append((b"subcommands", Map(named)))
    return Map(fields)


def _argument(item: ArgumentDoc) -> Map:
    """One argument as redis-cli reads it for its hints."""
    fields: list[tuple[bytes, Reply]] = [(b"name", item.name.encode()), (b"type", item.kind.encode())]
    if not item.parts:
        fields.append((b"display_text", item.name.encode()))
    if item.kind == "key":
        fields.append((b"key_spec_index", 0))
    if item.token:
        fields.append((b"token", item.token.encode()))
    flags = [name for name, there in ((b"optional", item.optional), (b"multiple", item.multiple)) if there]
    if flags:
        fields.append((b"flags", Set(map(Status, flags))))
    if item.parts:
        fields.append((b"arguments", [_argument(part) for part in item.parts]))
    return Map(fields)
