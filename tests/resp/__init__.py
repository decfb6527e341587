"""Tests of the RESP server, one file per module."""
