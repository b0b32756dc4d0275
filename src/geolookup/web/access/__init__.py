"""Who may ask, and how much: tokens, names of hosts, limits, and the guard that refuses."""
