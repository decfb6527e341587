"""RDB files: of real servers into a state, and of a state into real servers."""
