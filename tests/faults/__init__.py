"""Servers and processes that misbehave on purpose."""
