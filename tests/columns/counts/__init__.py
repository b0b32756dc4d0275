"""Counting: what a log or a column has, by where it is."""
