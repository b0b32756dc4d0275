"""HTTP to other machines: the only code that uses httpx."""
