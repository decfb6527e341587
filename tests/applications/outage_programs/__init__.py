"""Programs that work while their server is killed. See `tests/applications/outages.py`."""
