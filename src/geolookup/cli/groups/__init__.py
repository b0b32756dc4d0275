"""Groups of commands: imported when they are asked for, what a mistyped word meant, how help is laid out."""
