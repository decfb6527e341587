"""Grafana dashboards and Prometheus rules, in no wheel. `python -m dashboards.build` writes the JSON."""
