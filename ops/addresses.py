"""Addresses as settings have them: HOST:PORT."""

from __future__ import annotations

from ipaddress import ip_address


def parse_address(address: str) -> tuple[str, int]:
    """HOST and PORT of an address; IPv6 in brackets.

    Raises:
        ValueError: not HOST:PORT.
    """
    host, separator, port = address.rpartition(":")
    if not separator or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{address!r} is not HOST:PORT")
    return host.strip("[]") or "127.0.0.1", int(port)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches `host`."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
