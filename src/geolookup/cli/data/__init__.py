"""Commands that pull data, show what is served, and go back."""
