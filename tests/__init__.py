"""Tests: a folder for each package under test, and for real servers, the repository itself and the simulation."""
