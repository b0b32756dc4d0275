"""A fleet: what one builder publishes as signed static files, and any number of readers take."""
