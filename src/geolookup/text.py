"""Text from outside, made fit for a terminal, a log or a message: printable, on one line, of bounded length."""


def harmless(text: str, limit: int = 200) -> str:
    """The text with control, bidirectional and other unprintable characters escaped, at most ``limit`` long."""
    if len(text) <= limit and text.isprintable():
        return text
    shown = []
    length = 0
    for character in text[:limit]:
        if not character.isprintable():
            character = character.encode("unicode_escape", "backslashreplace").decode("ascii")
        length += len(character)
        if length > limit:
            break
        shown.append(character)
    return "".join(shown)


def unchanged(text: str) -> str:
    """For where there is no secret to take out."""
    return text
