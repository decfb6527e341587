"""What the workers of a topic tell each other: that they are there, how they are, and messages of Pub/Sub."""

from resp.cluster.bus.bus import Bus

__all__ = ["Bus"]
