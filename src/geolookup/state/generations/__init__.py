"""The kept generations: what was pulled, as files, and which of them was served when."""
