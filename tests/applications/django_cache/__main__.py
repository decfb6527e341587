"""A Django site's use of its cache: every method of the cache that goes to the server."""

from __future__ import annotations

import time
from typing import Any

import django
from django.conf import settings

from tests.applications.reporting import URL, report

POLL_S = 0.05


def main() -> None:
    """Configure a site, use its cache, report."""
    settings.configure(
        CACHES={
            "default": {
                "BACKEND": "django.core.cache.backends.redis.RedisCache",
                "LOCATION": URL,
                "KEY_PREFIX": "site",
                "TIMEOUT": 300,
            }
        },
        INSTALLED_APPS=["django.contrib.sessions"],
    )
    django.setup()
    report(values=_values(), counters=_counters(), many=_many(), timeouts=_timeouts(), sessions=_sessions())


def _values() -> dict[str, Any]:
    from django.core.cache import cache

    value = {"list": [1, 2.5, "Grüße"], "none": None}
    cache.set("value", value)
    cache.set("versioned", "second", version=2)
    return {
        "get": cache.get("value") == value,
        "missing": cache.get("missing", "default"),
        "add": [cache.add("added", 1), cache.add("added", 2), cache.get("added")],
        "has_key": ["value" in cache, "missing" in cache],
        "get_or_set": [cache.get_or_set("made", lambda: 5), cache.get_or_set("made", 6)],
        "versions": [cache.get("versioned"), cache.get("versioned", version=2)],
        "incr_version": [cache.incr_version("versioned", version=2), cache.get("versioned", version=3)],
        "delete": [cache.delete("value"), cache.delete("value"), cache.get("value")],
    }


def _counters() -> dict[str, Any]:
    from django.core.cache import cache

    cache.set("counter", 1)
    seen: dict[str, Any] = {"incr": [cache.incr("counter"), cache.incr("counter", 10), cache.decr("counter")]}
    try:
        cache.incr("missing")
    except ValueError as error:
        seen["missing"] = str(error)
    return seen


def _many() -> dict[str, Any]:
    from django.core.cache import cache

    failed = cache.set_many({"one": 1, "two": "zwei"}, timeout=100)
    found = cache.get_many(["one", "two", "three"])
    cache.delete_many(["one", "three"])
    left = cache.get_many(["one", "two"])
    return {"set_many": failed, "get_many": found, "delete_many": left}


def _timeouts() -> dict[str, Any]:
    from django.core.cache import cache

    cache.set("brief", "value", timeout=1)
    cache.set("never", "value", timeout=0)
    cache.set("touched", "value", timeout=1)
    seen = {
        "never": cache.get("never"),
        "touch": [cache.touch("touched", 100), cache.touch("missing", 100)],
        "touch_for_ever": cache.touch("touched", None),
    }
    while cache.get("brief") is not None:
        time.sleep(POLL_S)
    cache.set("cleared", "value")
    return {**seen, "touched": cache.get("touched"), "clear": cache.clear(), "cleared": cache.get("cleared")}


def _sessions() -> dict[str, Any]:
    from django.contrib.sessions.backends.cache import SessionStore

    session = SessionStore()
    session["user"] = 7
    session.save()
    again = SessionStore(session.session_key)
    user = again["user"]
    again.flush()
    return {"user": user, "after flush": SessionStore(session.session_key).get("user")}


if __name__ == "__main__":
    main()
