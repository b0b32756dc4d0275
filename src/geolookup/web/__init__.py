"""HTTP around every request, with limits, tokens, problems and metrics; and the processes that serve."""
