"""Commands that edit custom geolocations and push the edits."""
