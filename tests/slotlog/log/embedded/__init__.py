"""Tests of `slotlog/log/embedded/`."""
