"""State directories: opened, replayed, checked, cleaned, measured."""
