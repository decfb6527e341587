"""Clocks and rules of partitions: guards, shows and changes them."""
