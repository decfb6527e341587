"""Commands that run scripts, and those that keep them."""

from __future__ import annotations

from engine.commands.scripting import evaluation, run_as, stored

__all__ = ["evaluation", "run_as", "stored"]
