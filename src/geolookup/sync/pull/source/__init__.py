"""One source: from its list, or its file, to a candidate that is judged against its snapshot before."""
