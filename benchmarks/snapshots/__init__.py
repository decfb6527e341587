"""Benchmarks of replays, snapshots and restores: what brings a state back."""
