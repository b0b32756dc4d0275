"""What a browser is told that is not let in, or whose request is refused before any page: a page in plain words."""

from collections.abc import Mapping

from geolookup.console.html import Templates
from geolookup.web.problems import PROBLEMS

#: The page's own files alone: no inline script or style, no other host, no frame around it.
POLICY = (
    "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'; "
    "img-src 'self' data:"
)
HEADERS = (
    ("content-security-policy", POLICY),
    ("referrer-policy", "no-referrer"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
)
#: Neither a disk nor the back button shows a page again once the console has ended.
NO_STORE = ("cache-control", "no-store")

#: What happened, and what to do, by the name of the problem.
_WORDS: dict[str, tuple[str, str]] = {
    "used-address": (
        "This address was used already, or is of an earlier console",
        (
            "An address of the console opens it once, in one browser. If that was you, go on in that browser, or run "
            "`geolookup console` again for a new address. If it was not you, stop `geolookup console` now."
        ),
    ),
    "unknown-browser": (
        "This console does not know this browser",
        (
            "Open the address that `geolookup console` printed last. If it was used in another browser, or the console "
            "was started again since this page was opened, that address is not valid any more. Stop "
            "`geolookup console` and start it again: it prints a new address."
        ),
    ),
    "unknown-host": (
        "The console does not answer under this name",
        (
            "Open the address that `geolookup console` printed: it begins with http://127.0.0.1. If a link led here, "
            "close this page: another site tried to reach your console."
        ),
    ),
    "cross-site-request": (
        "This form does not come from the console",
        (
            "The console changes nothing if another page asks for it. If you filled in a form of the console, open "
            "that page again from the console's own links, and send it once more."
        ),
    ),
    "insufficient-scope": (
        "This console only reads",
        "It was started with --read-only. Run `geolookup console` without it to change something.",
    ),
    "target-too-long": ("The address is too long", "Go back, and look for something shorter."),
    "body-too-large": ("The form is too large", "A form may have 1 MiB. Go back, and send less text."),
    "head-too-large": (
        "The browser sent too many cookies",
        (
            "Other programs on this machine may have set them. Delete the cookies of 127.0.0.1 in the browser's "
            "settings, run `geolookup console` again, and open the address that it prints."
        ),
    ),
    "request-timeout": ("The request did not arrive in time", "Go back, and send it again."),
    "busy": ("The console is busy", "Too many pages are open at once. Wait a moment, and load this page again."),
    "shutting-down": ("The console is ending", "Run `geolookup console` again, and open the address that it prints."),
}
_OTHERWISE = "Open the address that `geolookup console` printed, in a current browser."


def words(name: str, otherwise: str = "") -> tuple[str, str]:
    """What happened and what to do, of a problem; ``otherwise`` is what to do if nothing better is known."""
    return _WORDS.get(name) or (PROBLEMS[name][1], otherwise or _OTHERWISE)


class Refusals:
    """The pages of what is refused, which show nothing of what is behind the door."""

    def __init__(self, templates: Templates) -> None:
        self._templates = templates

    def text(self, name: str) -> str:
        """The page of a problem."""
        heading, advice = words(name)
        return self._templates.render("refused.html", heading=heading, advice=advice)

    def page(self, name: str, status: int, detail: str) -> tuple[str, Mapping[str, str]]:  # noqa: ARG002
        """The same for the guard, with the headers that every page has."""
        return self.text(name), dict((*HEADERS, NO_STORE))
