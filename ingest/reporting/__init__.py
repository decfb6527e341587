"""What a service tells about itself: events for an observer, distributions, words for messages."""
