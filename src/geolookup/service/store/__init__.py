"""The service's database: its tables, and the code for each kind of database."""
