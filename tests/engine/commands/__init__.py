"""Tests of the records that each group of commands writes."""
