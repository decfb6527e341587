"""Services of several processes."""
