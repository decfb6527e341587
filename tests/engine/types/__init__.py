"""Tests of `engine/types/`; its commands have theirs in `tests/engine/commands/`."""
