"""The state directory: the only SQLite code, and the only code that publishes files."""
