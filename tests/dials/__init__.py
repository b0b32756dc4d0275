"""A service that is not ideal, the persons who use it, and what they asked for: written without the outbox's words."""
