"""Tests of `slotlog/log/`."""
