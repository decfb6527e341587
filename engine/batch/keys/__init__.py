"""One key in a batch: metadata, subkeys, and the forms that large values have."""
