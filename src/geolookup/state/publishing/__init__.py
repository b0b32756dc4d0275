"""Publishing: under two locks, to one rename; checking, restoring and keeping what was published."""
