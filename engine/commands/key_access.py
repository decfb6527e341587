"""Access of commands to their keys, in Redis' words: https://valkey.io/topics/key-specs/.

    access="RW access delete, RW insert"        the first key's, and that of all others, in the order of the usage line

The first word says what is done to the value as a whole: RO reads it, RW reads and changes it, OW writes over it, RM
removes it. The others say what is done to the user's data: `access` returns it, or what depends on it; `update`,
`insert` and `delete` change it. A command that tells no more than whether a key is there, its type or its size has none
of them. `variable_flags`: the arguments decide. `not_key`: a name that belongs to a slot as a key does, and is none.
"""

from __future__ import annotations

from functools import cache
from typing import Final

Access = tuple[str, ...]
"""The words for one key."""

READ: Final = "RO access"
WRITE: Final = "RW update"

_VALUE: Final = frozenset({"RO", "RW", "OW", "RM", "not_key"})
_CHANGING: Final = frozenset({"insert", "update", "delete"})
_DATA: Final = frozenset({"access", "update", "insert", "delete", "variable_flags"})


def parse_access(text: str) -> tuple[Access, ...]:
    """The words for each place in the usage line where keys stand.

    Raises:
        ValueError: a word that there is not, or in the wrong place.
    """
    found = tuple(tuple(each.split()) for each in text.split(","))
    for words in found:
        if not words or words[0] not in _VALUE or not _DATA.issuperset(words[1:]):
            raise ValueError(f"no access to keys: {text!r}")
    return found


@cache
def letters(access: Access) -> str:
    """Access as the ACL has it: `R` the value is read, `W` it is changed, both, or neither of them."""
    return ("R" if "access" in access else "") + ("" if _CHANGING.isdisjoint(access) else "W")
