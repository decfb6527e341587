"""Unmodified Redis clients on slotlog: each does one scenario, on the oracle too, which proves the scenario itself."""
