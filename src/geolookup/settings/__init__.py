"""What can be set, where it stands, and how durations are written."""
