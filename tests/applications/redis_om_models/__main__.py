"""Makes, reads, changes and deletes models that are hashes. The queries of Redis OM need a module, here and there."""

from __future__ import annotations

import datetime as dt
from typing import Any

from redis_om import HashModel, NotFoundError, get_redis_connection

from tests.applications.reporting import URL, report

COUNT = 5


class Customer(HashModel, index=True):  # type: ignore[call-arg]  # as its manual says; mypy does not see it
    """Somebody who buys."""

    name: str
    age: int
    joined: dt.date
    bio: str | None = None

    class Meta:
        """Where models are kept."""

        database = get_redis_connection(url=URL, decode_responses=True)
        global_key_prefix = "redis-om"


def main() -> None:
    """Do it all, report."""
    report(one=_one(), many=_many())


def _one() -> dict[str, Any]:
    ada = _customer("Ada", 36).save()
    loaded = Customer.get(ada.pk)
    ada.update(age=37)
    ada.expire(100)
    seen = {
        "get": [loaded.name, loaded.age, loaded.joined.isoformat(), loaded.bio],
        "update": Customer.get(ada.pk).age,
        "expire": 0 < ada.db().ttl(ada.key()) <= 100,
        "delete": [Customer.delete(ada.pk), Customer.delete(ada.pk)],
    }
    try:
        Customer.get(ada.pk)
    except NotFoundError:
        return {**seen, "deleted": True}
    return seen


def _many() -> dict[str, Any]:
    Customer.add([_customer(f"customer {number}", number) for number in range(COUNT)])
    pipeline = Customer.db().pipeline(transaction=True)
    _customer("last", COUNT).save(pipeline=pipeline)
    pipeline.execute()
    customers = [Customer.get(pk) for pk in Customer.all_pks()]
    return {
        "ages": sorted(customer.age for customer in customers),
        "deleted": Customer.delete_many(customers),
        "left": list(Customer.all_pks()),
    }


def _customer(name: str, age: int) -> Customer:
    return Customer(name=name, age=age, joined=dt.date(2026, 1, 2))


if __name__ == "__main__":
    main()
