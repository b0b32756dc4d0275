"""The organisation's places kept as one file: read, compared with the custom layer, applied."""
