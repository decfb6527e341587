"""Work on the file's pages and its `-wal`: room for commits, free pages given back, a backup."""
