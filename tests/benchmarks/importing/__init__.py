"""The benchmark of imports."""
