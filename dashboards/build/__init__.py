"""Builds the dashboards: `panels.py` their look, `queries.py` PromQL, `frame.py` what all have, then one file each."""
