"""The sources of default geolocations: files of every kind, and the service."""
