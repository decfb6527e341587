"""Tests of a running service: settings, verbs, metrics, the demo."""
