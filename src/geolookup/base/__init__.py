"""Errors of the system, text, JSON and files, as every room above sees them."""
