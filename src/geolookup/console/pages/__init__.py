"""One module a page: its handlers, what it shows, what it does. `geolookup.console.app` lists them."""
