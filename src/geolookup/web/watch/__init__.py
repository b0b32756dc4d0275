"""What operators see of the service: the access log, metrics, and its health."""
