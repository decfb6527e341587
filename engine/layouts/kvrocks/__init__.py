"""The layouts of Apache Kvrocks: `layout.py` says where records are, `codec.py` what metadata values of a state are.

`keys.py`, `metadata.py` and `fragments.py` have all records of Kvrocks, those too that a state never holds.
"""

from __future__ import annotations

from typing import Final

from engine.layouts.kvrocks.layout import Kvrocks, KvrocksCluster
from engine.layouts.layout import Layout

__all__ = ["LAYOUTS", "Kvrocks", "KvrocksCluster"]

LAYOUTS: Final[tuple[type[Layout], ...]] = (Kvrocks, KvrocksCluster)
