"""Workers of a group on a cluster of three brokers: brokers, links and workers that fail."""
