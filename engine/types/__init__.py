"""Storage verbs of the collection types, one file per type: what a command does to a key, without grammar or reply."""
