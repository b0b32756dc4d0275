"""`geolookup console`: pages in the browser for one state directory, by the same functions as the commands."""
