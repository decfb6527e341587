"""Which worker has which slots, and what the workers tell each other."""
