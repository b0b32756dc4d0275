"""MaxMind DB files (specification 2.0): their metadata, search tree, and the shapes of records."""
