"""Pull from the upstream service, and guard against what it may get wrong."""
