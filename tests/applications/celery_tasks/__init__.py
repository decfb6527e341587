"""Celery: the tasks that a worker runs, and a program that asks for them."""
