"""What stands in docker-compose.yml, Dockerfile and deploy/ is valid, and its commands run here without an engine."""
