"""Maps of where addresses are."""
