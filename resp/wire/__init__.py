"""RESP on a socket: bytes to commands, replies to bytes, TLS."""
