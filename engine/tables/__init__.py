"""The column families that every layout shares: what is stored in each, and how it is read back."""
