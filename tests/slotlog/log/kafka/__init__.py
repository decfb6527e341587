"""Tests of `slotlog/log/kafka/`."""
