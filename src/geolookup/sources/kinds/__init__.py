"""One module for each kind of source that is known by its content, or is asked for by its name."""
