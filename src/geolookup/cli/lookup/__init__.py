"""Commands that answer for addresses."""
