"""The command line: the only code that prints, exits or reads arguments."""
