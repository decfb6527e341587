"""Django's cache, and its sessions in the cache."""
