"""Plain, slow twins of everything clever."""
