"""A Django application with one model."""
