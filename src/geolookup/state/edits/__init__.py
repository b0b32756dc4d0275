"""Custom geolocations edited on this machine, and the outbox that takes them to the service."""
