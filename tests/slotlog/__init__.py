"""Tests of `slotlog/`."""
