"""Tests that docker-compose.yml, Dockerfile and deploy/ are valid, and that their commands run."""
