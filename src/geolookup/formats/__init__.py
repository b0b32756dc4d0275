"""Files that people exchange: one reader and writer a format."""
