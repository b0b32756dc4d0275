"""What the making of an index keeps on disk meanwhile, so that memory does not grow with blocks and places."""
