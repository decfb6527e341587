"""`python -m tests.docs`: write the generated parts of the pages in `docs/` anew."""

from __future__ import annotations

from tests.docs.generated import DOCS, PAGES, renewed

for name in PAGES:
    (DOCS / name).write_text(renewed(name))
