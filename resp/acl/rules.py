"""The rules of `ACL SETUSER`, each with its effect on a user or a selector.

    on off nopass resetpass >password <password #hash !hash reset      the user
    (rule …) clearselectors                                            further selectors
    +command -command +command|sub +@category -@category allcommands nocommands
    ~pattern %R~pattern %W~pattern allkeys resetkeys
    &pattern allchannels resetchannels
    db=0,1 alldbs resetdbs                                             the root selector, or one in parentheses

Source: https://valkey.io/topics/acl/; error texts as valkey-server 9.1 has them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Final, Protocol

from resp.acl.access import READ_WRITE
from resp.acl.selector import Selector
from resp.catalog.categories import CATEGORIES, is_command
from resp.catalog.server_registry import CONTAINERS

UNKNOWN: Final = "Unknown command or category name in ACL"
_SYNTAX: Final = "Syntax error"
_AFTER_ALL: Final = (
    "Adding a pattern after the * pattern (or the '{everything}' flag) is not valid and does not have any effect. "
    "Try '{reset}' to start with an empty list of {what}"
)
_NO_SUCH_PASSWORD: Final = "The password you are trying to remove from the user does not exist"  # noqa: S105
_NOT_A_HASH: Final = "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
_FIRST_ARGUMENT: Final = "Allowing first-arg of a subcommand is not supported"
_DB_OUT_OF_RANGE: Final = "The provided database ID is out of range"

_HASH: Final = re.compile(rb"[0-9a-f]{64}")
_KEY_RULE: Final = re.compile(rb"~|%(?:(?:R|W|RW|WR)(?:~|\Z))", re.IGNORECASE)
_BLANK: Final = re.compile(rb"[ \t\n\v\f\r\0]")
_DATABASE: Final = re.compile(rb"[ \t\n\v\f\r]*([+-]?[0-9]+)")
_DATABASE_MAX: Final = (1 << 31) - 1


class RuleError(ValueError):
    """A rule that cannot be applied. `problem` is Redis' text, without the rule, which may be a password."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


def password_hash(password: bytes) -> bytes:
    """SHA-256 in lower-case hexadecimal, the form in which passwords are kept."""
    return sha256(password).hexdigest().encode()


def has_blank(word: bytes) -> bool:
    """Whether `word` has white space or NUL in it, which no user name and no pattern may have."""
    return _BLANK.search(word) is not None


def merged(words: Sequence[bytes]) -> list[bytes]:
    """The rules with each selector in one piece: `(+get` and `~a)` become `(+get ~a)`.

    Raises:
        UnmatchedError: a selector has no end.
    """
    rules: list[bytes] = []
    opened: list[bytes] = []
    for word in words:
        if opened or (word.startswith(b"(") and not word.endswith(b")")):
            opened.append(word)
            if word.endswith(b")"):
                rules.append(b" ".join(opened))
                opened = []
        else:
            rules.append(word)
    if opened:
        raise UnmatchedError(opened[0])
    return rules


class UnmatchedError(ValueError):
    """A selector without its end; `beginning` is the word that opens it."""

    def __init__(self, beginning: bytes) -> None:
        super().__init__("unmatched parenthesis")
        self.beginning = beginning


# ---------------------------------------------------------------------- users


class RuledUser(Protocol):
    """The part of a user that rules change. `resp.acl.users.User` says what each attribute means."""

    enabled: bool
    nopass: bool
    password_hashes: dict[bytes, None]
    root: Selector
    selectors: list[Selector]

    def reset(self) -> None:
        """Make it a new user."""
        ...


def apply_to_user(user: RuledUser, rule: bytes) -> None:
    """Change `user` as the rule says.

    Raises:
        RuleError: the rule is none, or cannot be applied; the user may be half changed then.
    """
    word = _USER_WORDS.get(rule.lower())
    if word is not None:
        word(user)
    elif rule[:1] in _PASSWORD_RULES:
        _PASSWORD_RULES[rule[:1]](user, rule[1:])
    elif rule.startswith(b"(") and rule.endswith(b")"):
        user.selectors.append(_parse_selector(rule[1:-1]))
    else:
        apply_to_selector(user.root, rule)


def _parse_selector(rules: bytes) -> Selector:
    selector = Selector()
    for rule in rules.split():
        apply_to_selector(selector, rule)
    return selector


def _enable(user: RuledUser) -> None:
    user.enabled = True


def _disable(user: RuledUser) -> None:
    user.enabled = False


def _without_password(user: RuledUser) -> None:
    user.nopass = True
    user.password_hashes.clear()


def _reset_passwords(user: RuledUser) -> None:
    user.nopass = False
    user.password_hashes.clear()


def _add_hash(user: RuledUser, hashed: bytes) -> None:
    if _HASH.fullmatch(hashed) is None:
        raise RuleError(_NOT_A_HASH)
    user.password_hashes[hashed] = None
    user.nopass = False


def _remove_hash(user: RuledUser, hashed: bytes) -> None:
    if _HASH.fullmatch(hashed) is None:
        raise RuleError(_NOT_A_HASH)
    if hashed not in user.password_hashes:
        raise RuleError(_NO_SUCH_PASSWORD)
    del user.password_hashes[hashed]


_PASSWORD_RULES: Final[dict[bytes, Callable[[RuledUser, bytes], None]]] = {
    b">": lambda user, password: _add_hash(user, password_hash(password)),
    b"<": lambda user, password: _remove_hash(user, password_hash(password)),
    b"#": _add_hash,
    b"!": _remove_hash,
}

_USER_WORDS: Final[dict[bytes, Callable[[RuledUser], None]]] = {
    b"on": _enable,
    b"off": _disable,
    b"nopass": _without_password,
    b"resetpass": _reset_passwords,
    b"reset": lambda user: user.reset(),
    b"clearselectors": lambda user: user.selectors.clear(),
    b"sanitize-payload": lambda user: None,  # there is no RESTORE of foreign payloads whose checks could be left out
    b"skip-sanitize-payload": lambda user: None,
    b"": lambda user: None,
}


# ------------------------------------------------------------------ selectors


def apply_to_selector(selector: Selector, rule: bytes) -> None:
    """Change `selector` as the rule says.

    Raises:
        RuleError: as `apply_to_user`.
    """
    word = _SELECTOR_WORDS.get(rule.lower())
    if word is not None:
        word(selector)
    elif rule[:3].lower() == b"db=":
        selector.databases = _parse_databases(rule[3:])
    elif rule[:1] in (b"~", b"%"):
        _add_key_pattern(selector, rule)
    elif rule.startswith(b"&"):
        _add_channel_pattern(selector, rule[1:])
    elif rule[:1] in (b"+", b"-"):
        _add_command_rule(selector, rule[1:], allow=rule.startswith(b"+"))
    else:
        raise RuleError(_SYNTAX)


def _allow_keys(selector: Selector) -> None:
    selector.all_keys = True
    selector.key_patterns.clear()


def _reset_keys(selector: Selector) -> None:
    selector.all_keys = False
    selector.key_patterns.clear()


def _allow_channels(selector: Selector) -> None:
    selector.all_channels = True
    selector.channel_patterns.clear()


def _reset_channels(selector: Selector) -> None:
    selector.all_channels = False
    selector.channel_patterns.clear()


def _allow_databases(selector: Selector) -> None:
    selector.databases = None


def _reset_databases(selector: Selector) -> None:
    selector.databases = ()


_SELECTOR_WORDS: Final[dict[bytes, Callable[[Selector], None]]] = {
    b"allcommands": lambda selector: selector.set_base(allow=True),
    b"+@all": lambda selector: selector.set_base(allow=True),
    b"nocommands": lambda selector: selector.set_base(allow=False),
    b"-@all": lambda selector: selector.set_base(allow=False),
    b"allkeys": _allow_keys,
    b"~*": _allow_keys,
    b"resetkeys": _reset_keys,
    b"allchannels": _allow_channels,
    b"&*": _allow_channels,
    b"resetchannels": _reset_channels,
    b"alldbs": _allow_databases,
    b"resetdbs": _reset_databases,
}


def _parse_databases(numbers: bytes) -> tuple[int, ...]:
    """Of `0,2`. As in valkey, a number may have a sign and blanks in front."""
    found = []
    for number in numbers.split(b","):
        match = _DATABASE.fullmatch(number)
        if match is None:
            raise RuleError(_SYNTAX)
        if not 0 <= int(match[1]) <= _DATABASE_MAX:
            raise RuleError(_DB_OUT_OF_RANGE)
        found.append(int(match[1]))
    return tuple(sorted({*found}))


def _add_key_pattern(selector: Selector, rule: bytes) -> None:
    if selector.all_keys:
        raise RuleError(_AFTER_ALL.format(everything="allkeys", reset="resetkeys", what="patterns"))
    head = _KEY_RULE.match(rule)
    if head is None or has_blank(rule[head.end() :]):
        raise RuleError(_SYNTAX)
    letters = head[0].strip(b"%~").upper().decode()
    selector.add_key_pattern(rule[head.end() :], letters if len(letters) == 1 else READ_WRITE)


def _add_channel_pattern(selector: Selector, pattern: bytes) -> None:
    if selector.all_channels:
        raise RuleError(_AFTER_ALL.format(everything="allchannels", reset="resetchannels", what="channels"))
    if has_blank(pattern):
        raise RuleError(_SYNTAX)
    selector.add_channel_pattern(pattern)


def _add_command_rule(selector: Selector, word: bytes, *, allow: bool) -> None:
    if word.startswith(b"@"):
        if word[1:].lower().decode(errors="replace") not in CATEGORIES:
            raise RuleError(UNKNOWN)
    elif not is_command(word.upper()):
        if not allow:
            raise RuleError(UNKNOWN)
        _check_first_argument(word)
    selector.add_command_rule(word, allow=allow)


def _check_first_argument(word: bytes) -> None:
    """Whether `select|0` can be allowed: the command is there and has no subcommands."""
    command, _, argument = word.rpartition(b"|")
    if not is_command(command.upper()):
        raise RuleError(UNKNOWN)
    if b"|" in command:
        raise RuleError(_FIRST_ARGUMENT)
    if not argument:
        raise RuleError(_SYNTAX)
    if command.upper() in CONTAINERS:
        raise RuleError(UNKNOWN)
