"""MaxMind DB files (specification 2.0): the search tree, the data section, and what makes a file of both."""
