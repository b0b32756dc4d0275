"""Commands that run the service, or ask it."""
