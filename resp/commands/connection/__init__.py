"""Commands about the client's own connection: HELLO, AUTH, CLIENT and others."""
