"""Tests of `slotlog/log/embedded/pages/`."""
