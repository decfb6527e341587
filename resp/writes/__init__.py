"""The way of a client's write: to the log, into the state, and back as a reply."""
