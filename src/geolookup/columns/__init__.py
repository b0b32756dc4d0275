"""Whole columns of addresses: one kernel over Arrow arrays, and thin adapters for the engines that people use."""
