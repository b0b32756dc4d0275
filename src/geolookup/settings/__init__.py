"""The settings: their table, reading and editing them, secrets, the places of files, and times as people write them."""
