"""How help is laid out: prose is wrapped to the terminal, examples stay as they are written."""

import click

#: Lines of more are hard to read, however wide a terminal is.
MAX_WIDTH = 100


class Wrapping(click.HelpFormatter):
    """Wraps what follows a ``\\b`` too, except examples, lists and what is indented.

    click leaves such paragraphs as they are in the source: on a narrow terminal each of their lines would break twice.
    """

    def write_text(self, text: str) -> None:
        """Write some paragraphs."""
        width = max(self.width - self.current_indent, 11)
        indent = " " * self.current_indent
        for number, paragraph in enumerate(text.split("\n\n")):
            if number:
                self.write_paragraph()
            lines = [line for line in paragraph.split("\n") if line.strip() != "\b"]
            for kept, joined in _pieces(lines):
                if kept:
                    self.write(f"{indent}{joined}\n" if joined else "\n")
                else:
                    self.write(click.formatting.wrap_text(joined, width, indent, indent) + "\n")


def _pieces(lines: list[str]) -> list[tuple[bool, str]]:
    """Lines that stay as they are (true), and prose as one line (false)."""
    found: list[tuple[bool, str]] = []
    for line in lines:
        kept = line.startswith((" ", "Example"))
        begins = line.startswith(("Exit status:", "Settings come from"))
        if not kept and not begins and found and not found[-1][0]:
            found[-1] = (False, f"{found[-1][1]} {line.strip()}")
        else:
            found.append((kept, line.rstrip()))
    return found
