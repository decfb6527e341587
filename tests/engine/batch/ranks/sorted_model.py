"""Sorted sets as dicts, for tests: random commands, and what a question about places must be answered with."""

from __future__ import annotations

from random import Random


class Model:
    """Two sorted sets, y and z, as dicts, and random commands for z."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.sets: dict[str, dict[str, float]] = {"y": {}, "z": {}}
        self.members = random.choice([30, 200])

    def change(self) -> str:
        """A command that changes z or y, applied to the model."""
        kind = self.random.choice([self._add, self._add_many, self._remove, self._pop, self._increment, self._cut])
        if self.random.random() < 0.1:
            kind = self._copy
        return kind()

    def question(self) -> tuple[str, object]:
        """A command that asks for a place in z, which must not be empty, and its reply."""
        random, z = self.random, self._ordered()
        at, other = random.randrange(len(z)), random.randrange(len(z) + 10)
        low, high = sorted((self._score(), self._score()))
        within = [member for score, member in z if low <= score <= high]
        offset = random.randrange(6)
        questions: list[tuple[str, object]] = [
            (f"ZRANK z {z[at][1].decode()}", at),
            (f"ZREVRANK z {z[at][1].decode()}", len(z) - 1 - at),
            (f"ZRANGE z {at} {other}", [member for _, member in z[at : other + 1]]),
            (f"ZREVRANGE z {at} {other}", [member for _, member in z[::-1][at : other + 1]]),
            (f"ZRANGE z -{at + 1} -1", [member for _, member in z[len(z) - at - 1 :]]),
            (f"ZCOUNT z {low} {high}", len(within)),
            (f"ZRANGEBYSCORE z {low} {high} LIMIT {offset} 3", within[offset : offset + 3]),
            (f"ZREVRANGEBYSCORE z {high} {low} LIMIT {offset} 3", within[::-1][offset : offset + 3]),
        ]
        return random.choice(questions)

    def _ordered(self) -> list[tuple[float, bytes]]:
        return sorted((score, member.encode()) for member, score in self.sets["z"].items())

    def _score(self) -> float:
        return self.random.choice([float(self.random.randrange(20)), self.random.random() * 20, 5.0])

    def _member(self) -> str:
        return f"m{self.random.randrange(self.members)}"

    def _add(self) -> str:
        score, member = self._score(), self._member()
        self.sets["z"][member] = score
        return f"ZADD z {score} {member}"

    def _add_many(self) -> str:
        pairs = [(self._score(), self._member()) for _ in range(self.random.choice([3, 10, 50]))]
        self.sets["z"].update((member, score) for score, member in pairs)
        return "ZADD z " + " ".join(f"{score} {member}" for score, member in pairs)

    def _increment(self) -> str:
        by, member = self.random.randrange(5) - 2, self._member()
        self.sets["z"][member] = self.sets["z"].get(member, 0.0) + by
        return f"ZINCRBY z {by} {member}"

    def _remove(self) -> str:
        members = [self._member() for _ in range(self.random.choice([1, 1, 20]))]
        for member in members:
            self.sets["z"].pop(member, None)
        return "ZREM z " + " ".join(members)

    def _pop(self) -> str:
        count, highest = self.random.choice([1, 1, 3, 20]), self.random.random() < 0.5
        for _, member in self._ordered()[:: -1 if highest else 1][:count]:
            del self.sets["z"][member.decode()]
        return f"{'ZPOPMAX' if highest else 'ZPOPMIN'} z {count}"

    def _cut(self) -> str:
        first = self.random.randrange(self.members)
        last = first + self.random.choice([0, 5, 40])
        if self.random.random() < 0.5:
            gone = self._ordered()[first : last + 1]
            line = f"ZREMRANGEBYRANK z {first} {last}"
        else:
            gone = [(score, member) for score, member in self._ordered() if first <= score <= first + 1]
            line = f"ZREMRANGEBYSCORE z {first} {first + 1}"
        for _, member in gone:
            del self.sets["z"][member.decode()]
        return line

    def _copy(self) -> str:
        of, to = self.random.choice([("z", "y"), ("y", "z")])
        lines = [f"ZUNIONSTORE {to} 1 {of}", f"ZRANGESTORE {to} {of} 0 -1"]
        if self.sets[of]:
            lines.append(f"COPY {of} {to} REPLACE")
        self.sets[to] = dict(self.sets[of])
        return self.random.choice(lines)
