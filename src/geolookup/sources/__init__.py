"""Where default geolocations come from."""
