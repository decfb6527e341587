"""The benchmarks of replays, snapshots and restores run."""
