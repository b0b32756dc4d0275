"""The upstream service's client: the only code that speaks HTTP."""
