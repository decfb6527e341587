"""The `hashed` layout is for tests alone: it differs from `neokv` wherever the protocol allows it."""

from __future__ import annotations

from tests.layouts.hashed.layout import Hashed

__all__ = ["Hashed"]
