"""Random command sequences on the engine and on the oracle: the same replies, the same contents."""
