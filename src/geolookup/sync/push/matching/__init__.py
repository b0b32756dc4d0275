"""Matching creates: find the geolocations of a service's list that are ours, by their content alone."""
