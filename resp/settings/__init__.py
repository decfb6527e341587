"""Parameters: settings of the start, and what CONFIG changes later."""
