"""What those who run the service see of it: the access log, metrics, and whether it is well."""
