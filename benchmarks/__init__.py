"""Benchmarks: one file a claim, each printing a table; `python -m benchmarks.run` regenerates RESULTS.md."""
