"""Commands about the server: users, settings, reports, debugging."""
