"""Services for tests: the reference service and shares, run, kept, attacked, and spoken to."""
