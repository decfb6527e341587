"""The changes of one batch over the store: all that a command may read and write."""
