"""Superseded files, packed: each kept as a patch to the one after it, and made again byte for byte."""
