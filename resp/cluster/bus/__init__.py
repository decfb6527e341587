"""Messages between the workers of a topic: heartbeats, states, Pub/Sub."""

from resp.cluster.bus.bus import Bus

__all__ = ["Bus"]
