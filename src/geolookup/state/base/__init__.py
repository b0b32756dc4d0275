"""Files, clocks, databases, and the names of what a state holds: what all of the state stands on."""
