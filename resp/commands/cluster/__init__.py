"""CLUSTER, and what workers ask of each other."""
