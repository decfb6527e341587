"""What clients and the engine agree on, said once: pure functions and data, no I/O."""
