"""One module for each kind of source that can be told by its content, or is asked for by its name."""
