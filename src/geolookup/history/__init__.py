"""What changed between two generations, or would change, and for whom."""
