"""Where the addresses of a log or a file of rows are: how many from each country, city or source."""
