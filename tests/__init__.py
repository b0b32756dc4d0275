"""Tests mirror src; the package lets them share oracles and helpers."""
