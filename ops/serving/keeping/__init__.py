"""Takes and restores snapshots of a running service, and cuts its log behind them."""
