"""Files that were superseded, kept as what differs from the one after: each comes back byte for byte."""
