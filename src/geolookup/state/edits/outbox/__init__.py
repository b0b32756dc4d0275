"""The outbox: its kinds of edits, its rows, and the tables of edits.db that hold them."""
