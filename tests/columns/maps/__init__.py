"""Maps: what is on them, and that hostile text stays text."""
