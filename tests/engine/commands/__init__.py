"""What each group of commands writes."""
