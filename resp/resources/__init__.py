"""What the process has for its clients: memory, file descriptors, and the bound on what they hold."""
