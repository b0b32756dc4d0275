"""Who is let in: the address that works once, its cookie, and what everybody else is told."""
