"""slotlog over the wire: a server process, clients that show every byte, and the comparison with the oracle."""
