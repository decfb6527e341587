"""A record goes in, its outcome comes out, and many of them become one atomic batch."""
