"""Dashboards, rules and runbook: well formed, about metrics that there are, and with data in a real Prometheus."""
