"""INFO."""
