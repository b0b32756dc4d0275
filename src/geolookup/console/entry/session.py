"""The one browser that may use a console: its address carries a token once, which becomes a cookie."""

import secrets

#: A header that is longer is not one of ours.
_MAX_HEADER = 8192


class Session:
    """Who may use the console, until the process ends.

    ``form_token`` is what every form carries: a page of another origin cannot know it.
    """

    def __init__(self) -> None:
        self._token: str | None = secrets.token_urlsafe(32)
        self._cookie = secrets.token_urlsafe(32)
        self._name = "geolookup"
        self.form_token = secrets.token_urlsafe(32)

    def address(self, url: str) -> str:
        """The address to open, of a console whose base address is ``url``."""
        # Cookies are not kept apart by port: two consoles must not take each other's.
        self._name = f"geolookup-{url.rpartition(':')[2]}"
        return f"{url}/?token={self._token}"

    def admit(self, token: str) -> str | None:
        """The cookie to set, as its header has it; None if the token is wrong, or was used before."""
        if self._token is None or not secrets.compare_digest(token.encode(), self._token.encode()):
            return None
        self._token = None
        return f"{self._name}={self._cookie}; Path=/; HttpOnly; SameSite=Strict"

    def knows(self, header: str) -> bool:
        """Whether a header ``Cookie`` has the session's cookie."""
        if len(header) > _MAX_HEADER:
            return False
        pairs = (pair.strip().partition("=") for pair in header.split(";"))
        given = [value for name, _, value in pairs if name == self._name]
        return len(given) == 1 and secrets.compare_digest(given[0].encode(), self._cookie.encode())

    def is_form_of_ours(self, token: str) -> bool:
        """Whether a form came from a page of this console."""
        return secrets.compare_digest(token.encode(), self.form_token.encode())
