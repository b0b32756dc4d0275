"""Data for tests: what services send, files hold and states are published from."""
