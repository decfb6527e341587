"""Dead letters: stored, found and sent again."""
