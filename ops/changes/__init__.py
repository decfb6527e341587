"""The change feed: what each event did to which key, for other services."""
