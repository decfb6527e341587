"""One seeded source of faults and their times for everything that is simulated."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Final, NamedTuple

INJECTED: Final = "injected"
"""A word in the text of every injected failure, by which a stopped partition's reason is recognized."""


class KilledError(BaseException):
    """The process is dead: raised where it died, and from everything that what is left of it still tries to do."""


class InjectedError(OSError):
    """A failure of a store."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{INJECTED}: {what}")


class Rates(NamedTuple):
    """How probable each fault is, at each step that can meet it."""

    kill: float
    power_cut: float
    store: float
    read: float
    log: float
    letters: float
    append: float
    disk_full: float
    suspend: float


@dataclass
class World:
    """The state of the fault model.

    Attributes:
        life: counts the processes that have lived; what belongs to an earlier one is dead.
        calm: no more faults, so that everything comes to its end.
        failures: what must not be, found so far.
        met: how often each fault has happened.
    """

    random: Random
    rates: Rates
    life: int = 1
    calm: bool = False
    failures: list[str] = field(default_factory=list)
    met: Counter[str] = field(default_factory=Counter)

    def roll(self, fault: str, probability: float) -> bool:
        """Whether `fault` happens now."""
        if self.calm or self.random.random() >= probability:
            return False
        self.met[fault] += 1
        return True

    def alive(self, life: int) -> None:
        """A step of the process `life`; it may be its last.

        Raises:
            KilledError: it is dead, since now or since earlier.
        """
        if life == self.life and self.roll("kill", self.rates.kill):
            self.life += 1
        if life != self.life:
            raise KilledError

    def fail(self, what: str) -> None:
        """Note what must not be."""
        self.failures.append(what)


def random_rates(random: Random) -> Rates:
    """Some runs are rough all over, some only in places."""

    def rate(highest: float) -> float:
        return random.choice((0.0, highest / 30, highest / 5, highest))

    return Rates(
        kill=rate(0.1),
        power_cut=random.choice((0.0, 0.5, 1.0)),
        store=rate(0.3),
        read=rate(0.01),
        log=rate(0.2),
        letters=rate(0.4),
        append=rate(0.5),
        disk_full=rate(0.2),
        suspend=random.choice((0.0, 0.002, 0.02, 0.2)),
    )
