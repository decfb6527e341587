"""`python -m ops.cli`: the same as the console script."""

from __future__ import annotations

from ops.cli import main

main()
