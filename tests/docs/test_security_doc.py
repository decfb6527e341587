"""`docs/security.md` is true: its users can be made, its settings exist, and its limits are those of the server."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import resp.commands  # noqa: F401 - rules name commands
from ops.redis_settings import RedisSettings
from resp.acl import Acl
from resp.settings.config import Config

PAGE: Final = (Path(__file__).parents[2] / "docs" / "security.md").read_text()


def test_the_users_of_the_page_can_be_made() -> None:
    """Every `ACL SETUSER` line is taken, and what the page says of one of them is so."""
    acl = Acl()
    lines = re.findall(r"^ACL SETUSER (\S+) (.+)$", PAGE, re.MULTILINE)
    for name, rules in lines:
        acl.set_user(name.encode(), rules.encode().split())

    assert [name for name, _ in lines] == ["reader", "worker", "auditor"]
    allowed = [
        (b"reader", b"GET", [b"orders:1"]),
        (b"worker", b"SET", [b"orders:1", b"x"]),
        (b"worker", b"GET", [b"prices:1"]),
        (b"auditor", b"GET", [b"orders:1"]),
        (b"auditor", b"RPUSH", [b"audit:1", b"x"]),
    ]
    refused = [
        (b"reader", b"SET", [b"orders:1", b"x"]),
        (b"worker", b"SET", [b"prices:1", b"x"]),
        (b"worker", b"FLUSHALL", []),
        (b"auditor", b"RPUSH", [b"orders:1", b"x"]),
    ]
    assert [acl.users[user].check(name, args) for user, name, args in allowed] == [None] * len(allowed)
    assert [acl.users[user].check(name, args) is None for user, name, args in refused] == [False] * len(refused)


def test_the_settings_of_the_page_exist() -> None:
    """Every `redis.…` and every `SLOTLOG_REDIS__…` is a setting."""
    named = {*re.findall(r"`redis\.(\w+)", PAGE), *map(str.lower, re.findall(r"SLOTLOG_REDIS__(\w+)", PAGE))}

    assert named - set(RedisSettings.model_fields) == set()


def test_the_limits_of_the_page_are_those_of_the_server() -> None:
    """Each live limit's value at first."""
    config = Config()
    shown = {
        "maxclients": "10000",
        "timeout": "0",
        "client-query-buffer-limit": str(1 << 30),
        "proto-max-bulk-len": str(512 << 20),
        "client-output-buffer-limit": f"normal 0 0 0 slave 268435456 67108864 60 pubsub {32 << 20} 8388608 60",
        "tcp-keepalive": "300",
    }

    assert {name: config.show(name) for name in shown} == shown
    assert [name for name in shown if f"`{name}`" not in PAGE] == []
    assert RedisSettings().handshake_seconds == 10
