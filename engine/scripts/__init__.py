"""Runs the Lua scripts of EVAL and EVALSHA, the same at every replay."""
