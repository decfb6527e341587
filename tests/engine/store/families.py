"""The column families of the stores that these tests open by themselves: a store knows no layout."""

from __future__ import annotations

from typing import Final

FAMILIES: Final = ("data", "metadata")
