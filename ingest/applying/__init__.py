"""From the log into the state: the consumer, a worker for each partition, and what watches them."""
