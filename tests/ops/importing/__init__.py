"""Imports: from running servers, and what all imports share."""
