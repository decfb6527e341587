"""Tests: one folder per package under test, plus real servers (real/), the repository itself (tidy/) and the simulation."""
