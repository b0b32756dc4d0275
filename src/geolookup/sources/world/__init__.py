"""Where countries are, by the outlines of Natural Earth that are bundled."""
