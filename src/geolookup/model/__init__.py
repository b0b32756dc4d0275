"""Addresses, geolocations and answers: the values that every room above hands on."""
