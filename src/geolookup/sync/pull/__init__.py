"""From a source's list to a published generation."""
