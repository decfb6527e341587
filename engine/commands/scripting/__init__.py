"""Commands that run scripts and functions, and those that keep them."""

from __future__ import annotations

from engine.commands.scripting import evaluation, function_calls, functions, run_as, stored

__all__ = ["evaluation", "function_calls", "functions", "run_as", "stored"]
