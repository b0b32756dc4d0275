"""What stands around every request to the service: limits, tokens, problems, metrics."""
