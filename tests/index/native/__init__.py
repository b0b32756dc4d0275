"""Tests of the interval index."""
