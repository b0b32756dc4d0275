"""Reading files and folders, plain or compressed: bounded streams of bytes, lines, and rows of tables."""
