"""Drop-ins for other libraries' readers: the same calls, answered from a state. See docs/coming-from-geoip2.md."""
