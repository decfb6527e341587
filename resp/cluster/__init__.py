"""The workers of a cluster: who owns which slots, and their messages."""
