"""Checks, cleans and migrates the state and the log of a service."""
