"""Tests of `slotlog/log/embedded/proof/`."""
