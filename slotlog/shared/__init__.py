"""The rules that clients and the engine share: pure functions and data, no I/O."""
