"""Tests of `slotlog/log/embedded/file/`."""
