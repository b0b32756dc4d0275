"""What became of creates: which of the geolocations that a service lists are ours, by what they say alone."""
