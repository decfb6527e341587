"""Records that cannot be applied: where they are kept, and how they are found again."""
