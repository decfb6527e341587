"""django-cacheops: cached queries of a database whose rows change, while the server goes away."""

from __future__ import annotations

import time
from functools import partial
from typing import Final

import django
from django.conf import settings
from django.db import connection

from tests.applications.outage_programs.working import POLL_S, URL, WORK, insist, note, report, wait_for_outage

CHANGES: Final = 40
DATABASE: Final = WORK.with_name("database.sqlite3")

settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": DATABASE}},
    INSTALLED_APPS=["cacheops", "tests.applications.outage_programs.accounts"],
    CACHEOPS_REDIS=URL,
    CACHEOPS={"accounts.*": {"ops": "all", "timeout": 3600}},
)
django.setup()

from cacheops import invalidate_obj  # noqa: E402  - these need the settings
from cacheops.signals import cache_read  # noqa: E402

from tests.applications.outage_programs.accounts.models import Account  # noqa: E402


def main() -> None:
    """Change rows and read them by several queries; each read sees the change before it."""
    with connection.schema_editor() as editor:
        editor.create_model(Account)
    hits: list[bool] = []
    cache_read.connect(lambda sender, hit, **_: hits.append(hit), weak=False)
    ada, bob = (Account.objects.create(name=name) for name in ("ada", "bob"))
    stale = []
    for number in range(CHANGES):
        account = (ada, bob)[number % 2]
        account.balance = number
        _change(account)
        for _ in range(2):
            seen = insist(lambda: sum(row.balance for row in Account.objects.filter(balance__gte=0)))
            named = insist(partial(Account.objects.get, name=account.name))
            if [seen, named.balance] != [2 * number - 1 if number else 0, number]:
                stale.append([number, seen, named.balance])
        note(str(number))
        time.sleep(POLL_S)
    wait_for_outage()
    report(stale=stale, hits=sum(hits))


def _change(account: Account) -> None:
    """Save, and insist that the caches have forgotten it: the row may be saved while the server is away."""
    insist(account.save)
    insist(lambda: invalidate_obj(account))


if __name__ == "__main__":
    main()
