"""Dead letters, for an operator."""
