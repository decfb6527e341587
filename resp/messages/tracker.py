"""The options of one client's CLIENT TRACKING, and which of its reads are tracked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from engine.errors import CommandError

if TYPE_CHECKING:
    from resp.catalog.plans import Plan

_ENDS_MULTI: Final = frozenset({b"EXEC", b"DISCARD", b"RESET", b"QUIT"})


class Options(NamedTuple):
    """The options of CLIENT TRACKING ON.

    Attributes:
        redirect: the number of the client that is told in its place; 0: itself.
        prefixes: of BCAST; none are one empty prefix.
    """

    redirect: int = 0
    bcast: bool = False
    optin: bool = False
    optout: bool = False
    noloop: bool = False
    prefixes: tuple[bytes, ...] = ()


class Tracker:
    """One client's.

    Attributes:
        options: the newest.
        prefixes: of BCAST, those of all CLIENT TRACKING ON so far.
        broken: the client that it redirects to was gone when there was something to tell.
        caching: CLIENT CACHING was sent, for the command that follows.
    """

    __slots__ = ("_now", "broken", "caching", "options", "prefixes")

    def __init__(self, options: Options) -> None:
        self.options = options
        self.prefixes: dict[bytes, None] = {}
        self.broken = self.caching = self._now = False

    @property
    def wants_keys(self) -> bool:
        """Whether the keys that the command at hand reads are noted."""
        options = self.options
        if options.bcast or (options.optin and not self._now):
            return False
        return not (options.optout and self._now)

    @property
    def looks_at_commands(self) -> bool:
        """Whether anything is noted of its commands: then none takes the short way."""
        return self.options.noloop or not self.options.bcast

    def begin(self, plan: Plan | None, *, in_multi: bool) -> None:
        """A command begins, or is refused: CLIENT CACHING holds for it, and a MULTI up to its EXEC, as in Redis."""
        self._now = self.caching
        is_own = plan is not None and (plan.name.startswith(b"CLIENT|") or plan.name == b"MULTI")
        if not is_own and (not in_multi or (plan is not None and plan.name in _ENDS_MULTI)):
            self.caching = False

    def flags(self) -> list[bytes]:
        """As CLIENT TRACKINGINFO shows them."""
        options, caching = self.options, self.caching
        flags = (
            (True, b"on"),
            (options.bcast, b"bcast"),
            (options.optin, b"optin"),
            (options.optin and caching, b"caching-yes"),
            (options.optout, b"optout"),
            (options.optout and caching, b"caching-no"),
            (options.noloop, b"noloop"),
            (self.broken, b"broken_redirect"),
        )
        return [name for is_so, name in flags if is_so]


def check(options: Options, now: Tracker | None) -> None:
    """Refuse options that do not go together, or not with those that hold.

    Raises:
        CommandError: with Redis' text.
    """
    if options.prefixes and not options.bcast:
        raise CommandError("ERR PREFIX option requires BCAST mode to be enabled")
    if now is not None and now.options.bcast != options.bcast:
        raise CommandError(
            "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling "
            "it with a different mode."
        )
    if options.bcast and (options.optin or options.optout):
        raise CommandError("ERR OPTIN and OPTOUT are not compatible with BCAST")
    if options.optin and options.optout:
        raise CommandError("ERR You can't specify both OPTIN mode and OPTOUT mode")
    if now is not None and ((options.optin and now.options.optout) or (options.optout and now.options.optin)):
        raise CommandError(
            "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling "
            "it with a different mode."
        )
    _check_prefixes(options.prefixes, now.prefixes if now is not None else ())


def _check_prefixes(prefixes: tuple[bytes, ...], kept: Iterable[bytes]) -> None:
    """Two prefixes of one client must not tell of one key."""
    for at, prefix in enumerate(prefixes):
        for other in sorted(kept):
            if _overlap(prefix, other):
                raise _overlapping(prefix, "an existing prefix", other)
        for other in prefixes[at + 1 :]:
            if _overlap(prefix, other):
                raise _overlapping(prefix, "another provided prefix", other)


def _overlap(one: bytes, other: bytes) -> bool:
    return one.startswith(other) or other.startswith(one)


def _overlapping(prefix: bytes, which: str, other: bytes) -> CommandError:
    shown, other_shown = (_until_nul(text) for text in (prefix, other))
    return CommandError(
        f"ERR Prefix '{shown}' overlaps with {which} '{other_shown}'. Prefixes for a single client must not overlap."
    )


def _until_nul(text: bytes) -> str:
    """What C prints of it."""
    return text.partition(b"\0")[0].decode(errors="surrogateescape")
