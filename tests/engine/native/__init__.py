"""Tests of `engine/native/`: each part against its twin."""
