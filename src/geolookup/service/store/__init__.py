"""The service's database: its tables, and what only one kind of database knows."""
