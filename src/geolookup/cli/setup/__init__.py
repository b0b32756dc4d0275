"""Commands that set geolookup up on a machine, and say whether it is well."""
