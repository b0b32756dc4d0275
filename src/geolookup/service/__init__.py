"""The reference service: the whole upstream interface over a SQL database (extra `serve`)."""
