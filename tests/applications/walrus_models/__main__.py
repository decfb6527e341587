"""Makes, finds and changes models, and uses what else Walrus builds on Redis."""

from __future__ import annotations

from typing import Any

from tests.applications.reporting import attempt, report
from tests.applications.walrus_models.models import Entry, Person, database

PEOPLE = [("Ada", 36, True), ("Bob", 20, False), ("Cyd", 50, True)]


def main() -> None:
    """Do it all, report."""
    report(models=_models(), containers=_containers(), tools=_tools(), scripts=_scripts(), streams=_streams())


def _models() -> dict[str, Any]:
    for name, age, active in PEOPLE:
        person = Person.create(name=name, age=age, active=active, about=f"{name} writes programs")
        person.tags.add("person", name)
        person.visits.append("first")
        person.notes.update(born=age)
        person.scores.add({"game": age})
    ada = Person.load("Ada")
    seen: dict[str, Any] = {
        "count": Person.count(),
        "load": [ada.name, ada.age, ada.active, ada.about],
        "set": sorted(tag.decode() for tag in ada.tags),
        "list": [visit.decode() for visit in ada.visits],
        "hash": ada.notes["born"].decode(),
        "zset": ada.scores.score("game"),
        "equal": Person.get(Person.age == 50).name,
        "not_equal": _names(Person.active != True),  # noqa: E712  an expression of Walrus
        "search": _names(Person.about.search("bob")),
        "numbers": [Entry.create(text=text).number for text in ("a", "b", "c")],
    }
    ada.age = 37
    ada.save()
    Person.load("Cyd").delete()
    return {
        **seen,
        "saved": _names(Person.age == 37),
        "incr": ada.incr(Person.age, 5),
        "deleted": sorted(person.name for person in Person.all()),
        "ordered": [person.name for person in Person.query(order_by=Person.name.desc())],
    }


def _containers() -> dict[str, Any]:
    letters, fields, ranking = database.List("letters"), database.Hash("fields"), database.ZSet("ranking")
    left, right = database.Set("left"), database.Set("right")
    letters.extend(["a", "b", "c"])
    fields.update(name="Ada", born="1815")
    ranking.add({"second": 2, "first": 1})
    left.add("a", "b")
    right.add("b", "c")
    return {
        "list": [letters[1].decode(), [letter.decode() for letter in letters[-2:]], len(letters)],
        "hash": {key.decode(): value.decode() for key, value in fields},
        "zset": [[member.decode(), score] for member, score in ranking],
        "intersection": sorted(member.decode() for member in left & right),
        "union": sorted(member.decode() for member in left | right),
        "difference": sorted(member.decode() for member in left - right),
    }


def _tools() -> dict[str, Any]:
    cache, counter = database.cache("cache"), database.counter("counter")
    limit = database.rate_limit("limit", limit=2, per=100)
    completion, graph = database.autocomplete("completion"), database.graph("graph")
    cache.set("key", {"value": 1}, 100)
    completion.store("1", "python programming")
    completion.store("2", "programs in c")
    graph.store("Ada", "likes", "mathematics")
    return {
        "cache": [cache.get("key"), cache.delete("key"), cache.get("key")],
        "rate_limit": [limit.limit("somebody") for _ in range(3)],
        "counter": [counter.incr(), counter.incr(5), counter.value()],
        "autocomplete": sorted(completion.search("prog")),
        "graph": sorted(graph.search((graph.v.who, "likes", "mathematics"))["who"]),
    }


def _scripts() -> dict[str, Any]:
    """What Walrus does by scripts."""
    lock, array = database.lock("lock"), database.Array("array")
    limit = database.rate_limit_lua("limit in Lua", limit=2, per=100)
    array.extend(["x", "y", "z"])
    database.set("swapped", "old")
    return {
        "range": _names(Person.age > 30),
        "between": _names(Person.age.between(10, 30)),
        "lock": [lock.acquire(), lock.acquire(block=False), lock.release(), lock.acquire()],
        "array": [array[1].decode(), array.pop(0).decode(), len(array)],
        "rate_limit_lua": [limit.limit("somebody") for _ in range(3)],
        "cas": [database.cas("swapped", "other", "new"), database.cas("swapped", "old", "new")],
    }


def _streams() -> dict[str, Any]:
    return {
        "stream": attempt(lambda: [database.Stream("stream").add({"field": "value"}) is None, "added"]),
    }


def _names(expression: Any) -> list[str]:
    return sorted(person.name for person in Person.query(expression))


if __name__ == "__main__":
    main()
