"""From the outbox to the service, exactly as meant."""
