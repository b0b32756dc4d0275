"""What lookups answer, as files."""
