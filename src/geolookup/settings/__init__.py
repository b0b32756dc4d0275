"""The settings: the table of them, reading them, the secrets, where files are, and how durations are written."""
