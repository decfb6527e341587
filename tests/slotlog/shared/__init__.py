"""Tests of `slotlog/shared/`."""
