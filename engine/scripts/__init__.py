"""Runs the Lua scripts of EVAL and FCALL, the same at every replay."""
