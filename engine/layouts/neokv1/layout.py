"""The `neokv1` layout: strings are the records of Phase 1 (seed 000), all other types those of `neokv`.

    CF data   [metadata key] S   ->   [expire_ms:8][value]

`engine/layouts/neokv/phase1.py` has the form of strings. Nothing but strings was written in Phase 1, so a log of
strings leaves its bytes and no others. A string is one record, however long it is.
"""

from __future__ import annotations

from typing import ClassVar

from engine.layouts.layout import Earlier, Form
from engine.layouts.neokv.layout import NeoKVOverPhase1
from engine.layouts.neokv.phase1 import WrittenPhase1


class NeoKV1(NeoKVOverPhase1):
    """`neokv` with strings of Phase 1."""

    name: ClassVar[str] = "neokv1"
    forms: ClassVar[frozenset[Form]] = frozenset(Form) - {Form.FRAGMENTS}
    earlier: ClassVar[Earlier | None] = WrittenPhase1()
