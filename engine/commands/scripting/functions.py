"""FUNCTION LOAD, DELETE, FLUSH, LIST, DUMP and RESTORE: the libraries that are stored.

They act on the partition that they are in; a server and a producer send those that write to each one.
Source: https://valkey.io/commands/function-load/ and its kin; order of checks and texts as redis-server 7.0 has them.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from engine.batch.transaction import Transaction
from engine.commands.options import read_option
from engine.commands.registry import command
from engine.commands.scripting.evaluation import CATEGORIES
from engine.commands.scripting.library_code import ENGINE, parse
from engine.commands.scripting.shebang import FLAGS, flags_of
from engine.errors import DUMP_VERSION, CommandError
from engine.limits import FUNCTIONS_MAX
from engine.tables.libraries import Function, Library, library_of
from engine.values.glob import matcher
from engine.values.rdb.errors import FormatError, TooLargeError, VersionError
from engine.values.rdb.functions import dump, restored
from engine.values.replies import OK, Map, Reply, Set, Status

_EVERYWHERE: Final = ("request_policy:all_shards", "response_policy:all_succeeded")
_POLICIES: Final = frozenset((b"FLUSH", b"APPEND", b"REPLACE"))
_WRONG_POLICY: Final = "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE."
_TOO_MANY: Final = f"ERR there would be more than {FUNCTIONS_MAX:,} functions, or 64 MiB of libraries"
_TOO_LARGE: Final = "ERR the payload decompresses to more than 64 MiB"

_function = partial(command, group="scripting", since="7.0.0", container=True)
_writing = partial(
    _function, write=True, categories=("write", *CATEGORIES), tips=_EVERYWHERE, flags=("write", "noscript"), notifies=""
)
_reading = partial(_function, categories=CATEGORIES, flags=("noscript",))


@_writing(
    "FUNCTION LOAD [REPLACE] function-code",
    complexity="O(n), n the bytes of the code",
    grows=True,
    flags=("write", "denyoom", "noscript"),
)
def function_load(tx: Transaction, args: list[bytes]) -> Reply:
    r"""Keep a library of functions for FCALL. Returns its name.

    > FUNCTION LOAD "#!lua name=mylib\nredis.register_function('one', function() return 1 end)"
    "mylib"
    > FUNCTION LOAD "#!lua name=mylib\nredis.register_function('two', function() return 2 end)"
    (error) ERR Library 'mylib' already exists
    > FUNCTION LOAD REPLACE "#!lua name=mylib\nredis.register_function('two', function() return 2 end)"
    "mylib"
    """
    *options, code = args
    for option in options:
        if read_option(option) != b"REPLACE":
            raise CommandError(f"ERR Unknown option given: {_text(option)}")
    name, body = parse(code)
    if name in tx.libraries.by_name and not options:
        raise CommandError(_exists(name))
    _replace(tx, {name: _loaded(tx, code, body)}, [name] if name in tx.libraries.by_name else [])
    return name


@_writing("FUNCTION DELETE library-name", complexity="O(functions of the library)")
def function_delete(tx: Transaction, args: list[bytes]) -> Reply:
    r"""Forget a library.

    > FUNCTION LOAD "#!lua name=mylib\nredis.register_function('one', function() return 1 end)"
    "mylib"
    > FUNCTION DELETE mylib
    OK
    > FUNCTION DELETE mylib
    (error) ERR Library not found
    """
    if args[0] not in tx.libraries.by_name:
        raise CommandError("ERR Library not found")
    tx.libraries.remove(args[0], tx.batch)
    return OK


@_writing("FUNCTION FLUSH [ASYNC|SYNC]", complexity="O(libraries)")
def function_flush(tx: Transaction, args: list[bytes]) -> Reply:
    """Forget all libraries.

    > FUNCTION FLUSH
    OK
    """
    if len(args) > 1:
        raise CommandError("ERR unknown subcommand or wrong number of arguments for 'FLUSH'. Try FUNCTION HELP.")
    if args and read_option(args[0]) not in {b"ASYNC", b"SYNC"}:
        raise CommandError("ERR FUNCTION FLUSH only supports SYNC|ASYNC option")
    _replace(tx, {}, list(tx.libraries.by_name))
    return OK


@_writing(
    "FUNCTION RESTORE serialized-value [FLUSH|APPEND|REPLACE]",
    complexity="O(n), n the bytes of all code",
    grows=True,
    flags=("write", "denyoom", "noscript"),
)
def function_restore(tx: Transaction, args: list[bytes]) -> Reply:
    r"""Bring the libraries that FUNCTION DUMP has given, here or in Redis, beside those that are there.

    > FUNCTION RESTORE "\xf56#!lua name=a\nredis.register_function(1,function() end)\n\x00\xed\xea\xa2\xa8\xf1&.S"
    OK
    > FCALL 1 0
    (nil)
    > FUNCTION RESTORE payload
    (error) ERR DUMP payload version or checksum are wrong
    """
    if len(args) > 2:
        raise CommandError("ERR unknown subcommand or wrong number of arguments for 'RESTORE'. Try FUNCTION HELP.")
    policy = read_option(args[1]) if len(args) > 1 else b"APPEND"
    if policy not in _POLICIES:
        raise CommandError(_WRONG_POLICY)
    brought = _brought(tx, args[0])
    stored = tx.libraries.by_name
    both = sorted(stored.keys() & brought.keys())
    if policy == b"APPEND" and both:
        raise CommandError(f"ERR Library {_text(both[0])} already exists")
    _replace(tx, brought, list(stored) if policy == b"FLUSH" else both)
    return OK


@_reading("FUNCTION LIST [LIBRARYNAME library-name-pattern] [WITHCODE]", complexity="O(functions)")
def function_list(tx: Transaction, args: list[bytes]) -> Reply:
    """Return the libraries with their functions, in the order of their names.

    > FUNCTION LIST
    (empty array)
    """
    pattern, with_code, words = None, False, list(args)
    while words:
        word = words.pop(0)
        if read_option(word) == b"WITHCODE" and not with_code:
            with_code = True
        elif read_option(word) == b"LIBRARYNAME" and pattern is None:
            if not words:
                raise CommandError("ERR library name argument was not given")
            pattern = words.pop(0)
        else:
            raise CommandError(f"ERR Unknown argument {_text(word)}")
    matches = matcher(pattern.lower() if pattern is not None else b"*")
    found = ((name, library) for name, library in sorted(tx.libraries.by_name.items()) if matches(name.lower()))
    return [_listed(name, library, with_code=with_code) for name, library in found]


@_reading("FUNCTION DUMP", complexity="O(n), n the bytes of all code")
def function_dump(tx: Transaction, args: list[bytes]) -> Reply:
    r"""Return all libraries for FUNCTION RESTORE, here or in Redis.

    > FUNCTION DUMP
    "\n\x00]\x9b\\@\x0f\x7f\xa2\xda"
    """
    return dump(tx.libraries.codes.values())


# ---------------------------------------------------------------------- inside


def _loaded(tx: Transaction, code: bytes, body: bytes) -> Library:
    """The library of that code, which is run.

    Raises:
        CommandError: it cannot be loaded, or registers nothing.
    """
    library = library_of(code, ())
    functions = [Function(*each) for each in tx.runner.functions_of(library.sha, body)]
    if not functions:
        raise CommandError("ERR No functions registered")
    return library_of(code, functions)


def _brought(tx: Transaction, payload: bytes) -> dict[bytes, Library]:
    """The libraries of a payload, by name.

    Raises:
        CommandError: it is none, or one of them cannot be loaded.
    """
    brought: dict[bytes, Library] = {}
    names: set[bytes] = set()
    try:
        for code in restored(payload):
            name, body = parse(code)
            if name in brought:
                raise CommandError(_exists(name))
            brought[name] = library = _loaded(tx, code, body)
            _add_names(names, library)
            if len(names) > FUNCTIONS_MAX:
                raise CommandError(_TOO_MANY)
    except VersionError:
        raise CommandError(DUMP_VERSION) from None
    except TooLargeError:
        raise CommandError(_TOO_LARGE) from None
    except FormatError as error:
        raise CommandError(f"ERR {error}") from None
    return brought


def _replace(tx: Transaction, brought: dict[bytes, Library], gone: list[bytes]) -> None:
    """Keep some libraries, which have been loaded, and forget others, which are there.

    Raises:
        CommandError: a function of one that is kept is there already, or there is no room.
    """
    stored, going = tx.libraries, frozenset(gone)
    kept = [library for name, library in stored.by_name.items() if name not in going]
    names = {function.name.lower() for library in kept for function in library.functions}
    for library in brought.values():
        _add_names(names, library)
    if not stored.has_room(brought.values(), [stored.by_name[name] for name in gone]):
        raise CommandError(_TOO_MANY)
    for name in gone:
        stored.remove(name, tx.batch)
    for name, library in brought.items():
        stored.keep(name, library, tx.batch)


def _add_names(names: set[bytes], library: Library) -> None:
    """Add the functions of a library to those that there are. Raises CommandError: one is there already."""
    for function in library.functions:
        if function.name.lower() in names:
            raise CommandError(f"ERR Function {_text(function.name)} already exists")
        names.add(function.name.lower())


def _listed(name: bytes, library: Library, *, with_code: bool) -> Map:
    functions = [
        Map(
            [
                (b"name", function.name),
                (b"description", function.description),
                (b"flags", Set(Status(flag) for flag in FLAGS if flag in flags_of(function.flags))),
            ]
        )
        for function in library.functions
    ]
    rows: list[tuple[Reply, Reply]] = [(b"library_name", name), (b"engine", ENGINE), (b"functions", functions)]
    if with_code:
        rows.append((b"library_code", library.code))
    return Map(rows)


def _exists(name: bytes) -> str:
    return f"ERR Library '{_text(name)}' already exists"


def _text(raw: bytes) -> str:
    return raw.partition(b"\0")[0].decode(errors="surrogateescape")
