"""The keys of a partition in memory: how they come there, what they take, how they become records."""
