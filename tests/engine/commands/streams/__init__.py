"""Tests of the commands on streams."""
