"""`geolookup share`: what one state answers, for machines and tools that have no geolookup. Needs no database."""
