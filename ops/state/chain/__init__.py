"""The hash chain over the log: heads that are kept, and the log held against them."""
