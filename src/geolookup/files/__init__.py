"""What a source is read from: files and folders, plain or compressed, as bounded streams of bytes, lines and rows."""
