"""What is wrong with the sites of a file, and what a person should know of them."""

from geolookup.files.bad_rows import BadRows


class Problems(BadRows):
    """What is wrong, to be named all at once; ``notes`` is what a person should know, though it may be right."""

    def __init__(self) -> None:
        super().__init__("nothing was changed: correct what is named, and try again")
        self.notes: list[str] = []
