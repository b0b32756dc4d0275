"""Changes between two generations, or before something is published, and the addresses that they affect."""
