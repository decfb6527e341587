"""`python -m tests.docs`: write the generated parts of `docs/` anew, and the clients' table of commands."""

from __future__ import annotations

from benchmarks.results.chart import draw
from tests.docs.command_table import TABLE, rendered
from tests.docs.generated import DOCS, PAGES, RUN, renewed

if RUN.exists():
    draw(RUN)
for name in PAGES:
    (DOCS / name).write_text(renewed(name))
TABLE.write_text(rendered())
