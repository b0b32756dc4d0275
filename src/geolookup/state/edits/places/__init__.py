"""Edits brought to a service exactly as meant: what a push decides, without SQL and HTTP."""
