"""Huey: the tasks that its consumer runs, and a program that asks for them."""
