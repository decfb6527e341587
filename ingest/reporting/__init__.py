"""A service's reports: events for an observer, distributions, words for messages."""
