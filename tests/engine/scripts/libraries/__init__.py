"""Tests of the libraries that scripts have beside those of Lua."""
