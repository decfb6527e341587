"""Parses the words in front of XADD's id, and those of XTRIM, which say how to trim.

`~` lets Redis keep what would cost it more to delete: it deletes whole nodes of its tree, of 100 entries with the
default settings, or of as many as fit into 4096 bytes. From rules 3 on that is so here. With older rules it deletes
hundreds of entries with MAXLEN, and with MINID all that are too old. As in Redis it deletes at most as many as LIMIT
says, 10,000 without it.

KEEPREF, DELREF and ACKED are those of Redis 8.2: see `engine.types.stream.stream_references`. With the latter two LIMIT
says how many entries are looked at, and MINID deletes single entries.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.batch.keys.key import Key
from engine.batch.transaction import Transaction
from engine.commands.options import read_integer, read_option
from engine.commands.streams.ids import PartialId, parse_id, parse_partial_id
from engine.errors import SYNTAX, CommandError
from engine.tables.system import RULES_OF_STREAM_NODES
from engine.types.stream import stream_nodes, stream_references
from engine.types.stream.stream_references import References, references_of
from engine.types.stream.streams import Trim, parts
from engine.values.stream_nodes import NODE_ENTRIES

_LIMIT: Final = 100 * NODE_ENTRIES


class Options(NamedTuple):
    """The options of one command.

    Attributes:
        behind: index of the argument behind the options, of XADD that behind the id.
        id: XADD's id; None: `*`.
        makes: XADD makes a stream where there is none.
        length, min_id: of MAXLEN and MINID; None: it was not given.
        limit: at most so many are deleted, 0 for any number; None without `~`.
        references: what becomes of those to entries that are deleted.
    """

    behind: int
    id: PartialId | None = None
    makes: bool = True
    length: int | None = None
    min_id: bytes | None = None
    limit: int | None = None
    references: References = References.KEEP

    @property
    def trims(self) -> bool:
        """Whether it says how to trim."""
        return self.length is not None or self.min_id is not None

    def trim(self, tx: Transaction, key: Key) -> int:
        """Trim a stream. Returns how many entries are gone."""
        most = self.limit or None
        how = Trim(self.length, most=most) if self.min_id is None else Trim(None, self.min_id, most)
        if self.limit is None:
            return stream_references.trim(tx, key, how, self.references)
        if tx.rules < RULES_OF_STREAM_NODES:
            return stream_references.trim(tx, key, how if how.length is None else _hundreds(key, how), self.references)
        if self.references is References.KEEP or not parts(key).groups:
            return stream_nodes.trim(tx, key, how)
        if how.length is not None:
            how = Trim(key.size - stream_nodes.count(key, how)[0], most=most)
        return stream_references.trim(tx, key, how, self.references)


def _hundreds(key: Key, how: Trim) -> Trim:
    """What MAXLEN with `~` is before `RULES_OF_STREAM_NODES`."""
    surplus = max(key.size - (how.length or 0), 0)
    surplus -= surplus % NODE_ENTRIES
    if how.most is not None:
        surplus = min(surplus, how.most - how.most % NODE_ENTRIES)
    return Trim(key.size - surplus, most=how.most)


class _Words:
    """The options as far as they are read."""

    def __init__(self, args: list[bytes]) -> None:
        self._args = args
        self.at = 1
        self.approximate = False
        self.makes = True
        self.length: int | None = None
        self.min_id: bytes | None = None
        self.limit: int | None = None
        self.references: References | None = None

    def read(self, option: bytes) -> bool:
        """Take an option of both commands and what belongs to it; False: it is none."""
        more = len(self._args) - 1 - self.at
        references = references_of(option)
        if references is not None and self.references is None:
            self.references = references
        elif option in {b"MAXLEN", b"MINID"} and more:
            self._strategy(option, more)
        elif option == b"LIMIT" and more:
            limit = read_integer(self._args[self.at + 1])
            if limit < 0:
                raise CommandError("ERR The LIMIT argument must be >= 0.")
            self.limit = limit
            self.at += 1
        else:
            return False
        self.at += 1
        return True

    def options(self, behind: int, entry_id: PartialId | None, *, is_xtrim: bool = False) -> Options:
        """All of them, when the last one is read.

        Raises:
            CommandError: they do not go together, or those of XTRIM do not say how to trim.
        """
        trims = self.length is not None or self.min_id is not None
        if self.limit and not trims:
            raise CommandError("ERR syntax error, LIMIT cannot be used without specifying a trimming strategy")
        if is_xtrim and not trims:
            raise CommandError("ERR syntax error, XTRIM must be called with a trimming strategy")
        if self.limit is not None and not self.approximate:
            raise CommandError("ERR syntax error, LIMIT cannot be used without the special ~ option")
        limit = (_LIMIT if self.limit is None else self.limit) if self.approximate else None
        references = self.references or References.KEEP
        return Options(behind, entry_id, self.makes, self.length, self.min_id, limit, references)

    def _strategy(self, option: bytes, more: int) -> None:
        if self.length is not None or self.min_id is not None:
            text = "ERR syntax error, MAXLEN and MINID options at the same time are not compatible"
            raise CommandError(text)
        self.approximate = False
        if more > 1 and self._args[self.at + 1].partition(b"\0")[0] in {b"~", b"="}:
            self.approximate = self._args[self.at + 1].startswith(b"~")
            self.at += 1
        value = self._args[self.at + 1]
        if option == b"MINID":
            self.min_id = parse_id(value)
        else:
            self.length = read_integer(value)
            if self.length < 0:
                raise CommandError("ERR The MAXLEN argument must be >= 0.")
        self.at += 1


def read_of_xadd(args: list[bytes]) -> Options:
    """The options of XADD, and its id.

    Raises:
        CommandError: they cannot be read.
    """
    words = _Words(args)
    while words.at < len(args):
        word = args[words.at]
        if word.partition(b"\0")[0] == b"*":
            return words.options(words.at + 1, None)
        option = read_option(word)
        if words.read(option):
            continue
        if option != b"NOMKSTREAM":
            return words.options(words.at + 1, parse_partial_id(word))
        words.makes = False
        words.at += 1
    return words.options(words.at + 1, None)


def read_of_xtrim(args: list[bytes]) -> Options:
    """The options of XTRIM.

    Raises:
        CommandError: they cannot be read, or do not say how to trim.
    """
    words = _Words(args)
    while words.at < len(args):
        if not words.read(read_option(args[words.at])):
            raise CommandError(SYNTAX)
    return words.options(words.at, None, is_xtrim=True)
