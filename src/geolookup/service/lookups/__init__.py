"""Lookups over HTTP, answered from an index that follows the database."""
