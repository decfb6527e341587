"""Every command as COMMAND describes it, derived from usage lines and a few tables.

The tables hold Redis' own classification (https://valkey.io/commands/, field `command_flags` and `key_specs`), which
cluster clients and ACL categories go by. Tests hold every entry against the oracle.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.commands.key_access import Access
from engine.commands.registry import SPECS, Spec
from resp.catalog.arguments import KeyRange, key_ranges, legacy_range
from resp.catalog.categories import CATEGORIES, categories_of
from resp.catalog.server_registry import SERVER_SPECS, ServerSpec


@dataclass(frozen=True, slots=True)
class Description:
    """One command, or one subcommand of a container.

    Attributes:
        name: lower case, `client|list` for a subcommand.
        arity: with the name; negative: at least so many.
        keys: where keys stand, with the flags of each range.
        subcommands: of a container.
    """

    name: str
    usage: str
    arity: int
    flags: tuple[str, ...]
    categories: tuple[str, ...]
    group: str
    since: str
    complexity: str
    summary: str
    tips: tuple[str, ...] = ()
    keys: tuple[tuple[KeyRange, Access], ...] = ()
    subcommands: tuple[Description, ...] = ()

    @property
    def names(self) -> int:
        """How many words its name is."""
        return 2 if "|" in self.name else 1

    @property
    def first_last_step(self) -> tuple[int, int, int]:
        """Where its keys stand, as far as these three numbers can say it."""
        return legacy_range([each for each, _ in self.keys])

    def takes(self, words: int) -> bool:
        """Whether a command of so many words, its name included, has the right number of them."""
        return words == self.arity if self.arity >= 0 else words >= -self.arity


def catalog() -> dict[str, Description]:
    """Every command that a client may send, by name; subcommands stand in their containers alone."""
    entries = [_of_engine(spec) for name, spec in SPECS.items() if not spec.internal and name not in SERVER_SPECS]
    entries += [_of_server(spec) for spec in SERVER_SPECS.values()]
    subcommands: dict[str, list[Description]] = {}
    for entry in entries:
        if entry.names > 1:
            subcommands.setdefault(entry.name.partition("|")[0], []).append(entry)
    found = {entry.name: entry for entry in entries if entry.names == 1}
    for name, members in subcommands.items():
        found[name] = _container(name, found.get(name), tuple(members))
    return dict(sorted(found.items()))


def _categories(name: str) -> tuple[str, ...]:
    found = categories_of(name.encode().upper())
    return tuple(category for category in CATEGORIES if category in found)


def _of_engine(spec: Spec) -> Description:
    name = spec.name.decode().lower()
    categories = _categories(name)
    keys = _keys(name, spec)
    return Description(
        name,
        spec.usage,
        _arity(name, spec),
        spec.flags if spec.flags is not None else _flags(spec, keys),
        categories,
        spec.group,
        spec.release,
        spec.complexity,
        spec.summary,
        spec.tips,
        keys,
    )


def _flags(spec: Spec, keys: tuple[tuple[KeyRange, Access], ...]) -> tuple[str, ...]:
    flags = ["write" if spec.write else "readonly"]
    flags += ["denyoom"] if spec.grows else []
    flags += ["fast"] if spec.fast else []
    if not all(each.fixed for each, _ in keys):
        flags.append("movablekeys")
    return tuple(flags)


def _of_server(spec: ServerSpec) -> Description:
    name = spec.shown_name
    return Description(
        name,
        spec.usage,
        _arity(name, spec),
        spec.flags,
        spec.categories,
        spec.group,
        spec.release,
        spec.complexity,
        spec.summary,
        spec.tips,
        _keys(name, spec) if spec.access else (),
    )


def _container(name: str, bare: Description | None, subcommands: tuple[Description, ...]) -> Description:
    """The entry of a container; `bare` is the command that its name is alone, such as COMMAND."""
    first = subcommands[0]
    if bare is None:
        summary = f"A container for {name} commands."
        depends = "depends on the subcommand"
        group, since = first.group, first.since
        return Description(
            name, name.upper(), -2, (), ("slow",), group, since, depends, summary, subcommands=subcommands
        )
    return Description(
        name,
        name.upper(),
        -1,
        bare.flags,
        bare.categories,
        bare.group,
        bare.since,
        bare.complexity,
        bare.summary,
        bare.tips,
        subcommands=subcommands,
    )


def _arity(name: str, spec: Spec | ServerSpec) -> int:
    least = spec.arguments_min + name.count("|") + 1
    return least if spec.arguments_min == spec.arguments_max else -least


def _keys(name: str, spec: Spec | ServerSpec) -> tuple[tuple[KeyRange, Access], ...]:
    ranges = key_ranges(spec.usage, 1 + name.count("|"))
    if isinstance(spec, Spec) and spec.patterns is not None:  # Redis gives up, too: a pattern may be like an option
        ranges = [ranges[0], KeyRange(0, known=False), *(KeyRange(0, known=False) for _ in ranges[1:])]
    return tuple((each, spec.access[min(at, len(spec.access) - 1)]) for at, each in enumerate(ranges))
