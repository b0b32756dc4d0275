"""What a user sits in front of: a shell, a terminal, a browser."""
