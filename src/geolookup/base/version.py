"""The version, alone in a file so that building needs to import nothing else."""

__version__ = "0.1.0"
