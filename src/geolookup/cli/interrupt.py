"""The message after Ctrl-C and SIGTERM: how far a command came, what is safe, and what to run next.

`app` catches the interrupt, for every command; servers end at SIGTERM in their own way. The words are those of
`SAID`. Their facts are found at that moment: a command tells here what it works on before it changes anything
(`working_on`, `writing_to`), and how far it is (`Progress`).
"""

import contextlib
import os
import signal
import string
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from geolookup.base.stamp import stamp_of
from geolookup.cli import exit_codes
from geolookup.model.errors import GeoLookupError
from geolookup.state.base.signals import Terminated, terminate

if TYPE_CHECKING:
    from geolookup.state.base.current import Current
    from geolookup.state.publishing.directory import StateDirectory

_READ = "nothing was changed"
_WRITTEN = "{target}; run it again"

#: What is said of each command, or of all commands of a group that are not named themselves. {published}, {sent},
#: {edited}, {settings}, {target} and {runs} are what became of each; see `_NOTHING`.
SAID = {
    "annotate": "what it wrote before is right; give it the rest, or all of it again",
    "check": f"{_READ}; run it again to know of all rows",
    "completion": _READ,
    "config": _READ,
    "config init": "{settings}; `geolookup config show` says what is there",
    "console": "{runs}",
    "custom": "{edited}",
    **dict.fromkeys(("custom check", "custom list", "custom plan", "custom show"), _READ),
    "custom apply": "{edited}; `geolookup custom plan FILE` says what is left",
    "custom export": _WRITTEN,
    "doctor": _READ,
    "enrich": _WRITTEN,
    "explain": _READ,
    "export": _WRITTEN,
    "fleet": _READ,
    "fleet follow": "{published}; start it again, it goes on from there",
    "fleet init": "keys that are half there are of no use: remove them, and run it again",
    "fleet join": "{published}; run it again, it begins anew",
    "fleet publish": "readers have what was published before, or this; run it again",
    "generations": "{published}; `geolookup generations list` shows what is kept",
    "generations diff": _READ,
    "generations list": _READ,
    "history": _READ,
    "hotel": _READ,
    "list": _READ,
    "lookup": "what it answered before is right; give it the rest, or all of it again",
    "map": _WRITTEN,
    "outbox": "{edited}",
    "outbox list": _READ,
    "outbox show": _READ,
    "push": "{sent}; `geolookup push` goes on from there",
    "rate": "the service has those that were answered, and perhaps one more; putting FILE again does no harm",
    "refresh": "{sent}; {published}; `geolookup refresh` goes on from there",
    "serve": "it did not serve yet; of each kind of data all files are loaded, or none; start it again",
    "serve-token": "a token that was not printed is of no use: remove its line, and make another",
    "share": "it did not serve yet, and nothing was changed; start it again",
    "source": "{settings}",
    "source list": _READ,
    "source show": _READ,
    "state backup": "FILE is a whole backup, or as it was; run it again",
    "state move": "the state is whole in the old place or the new one: `geolookup verify` says whether it is here",
    "state restore": "the state is whole: the one before, or that of the backup; `geolookup status` says which",
    "status": _READ,
    "sync": "{published}; run it again, it begins anew",
    "top": f"{_READ}; run it again to count all of them",
    "verify": f"{_READ}; what is published was not checked to its end: run it again",
}
_NOTHING = {
    "published": "nothing was published",
    "sent": "nothing was sent",
    "edited": "nothing was changed",
    "settings": "the settings are as before",
    "target": "nothing was written",
    "runs": "it did not serve yet, and nothing was changed; start it again",
}

#: They handle SIGTERM themselves, and what they start inherits no handler of ours.
_SERVING = {"console", "serve", "share"}

_facts: dict[str, Callable[[], str]] = {}
_progress: "Progress | None" = None
_command = "lookup"


class Progress:
    """The progress of a command: ``done`` of ``total`` (None if it is unknown).

    ``one`` is what is counted, in the singular; of "%" the share of the work is said.
    """

    __slots__ = ("_one", "done", "total")

    def __init__(self, one: str) -> None:
        global _progress
        self._one = one
        self.done = 0
        self.total: int | None = None
        _progress = self

    def __str__(self) -> str:
        if self._one == "%":
            return f"{100 * self.done // (self.total or 1)} % of the work"
        plural = "es" if self._one.endswith("s") else "s"
        counted = self._one if (self.total or self.done) == 1 else f"{self._one}{plural}"
        return f"{self.done:,}{'' if self.total is None else f' of {self.total:,}'} {counted}"


def begin(words: list[str]) -> None:
    """Forget what a command before this one told; ``words`` are its arguments."""
    global _progress, _command
    _facts.clear()
    _progress = None
    given = [word for word in words if not word.startswith("-")]
    _command = next((name for name in (" ".join(given[:2]), *given[:1]) if name in SAID), "lookup")


@contextlib.contextmanager
def at_sigterm() -> Iterator[None]:
    """Have SIGTERM interrupt the command, in the main thread and if nothing else handles it."""
    if _command in _SERVING or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    try:
        signal.signal(signal.SIGTERM, terminate)
    except ValueError:  # another thread than the main one
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def status(error: BaseException) -> int:
    """The exit status after an interrupt; click raises its own `Abort` from it."""
    is_terminated = isinstance(error, Terminated) or isinstance(error.__cause__, Terminated)
    return exit_codes.TERMINATED if is_terminated else exit_codes.INTERRUPTED


def _asked() -> set[str]:
    """The facts that the command's words need."""
    return {name for _, name, _, _ in string.Formatter().parse(SAID[_command]) if name}


def working_on(directory: "StateDirectory") -> "Current | None":
    """Note what a state is like before the command changes it, as far as its words need that.

    Returns what CURRENT said, if it was asked for.
    """
    asked = _asked()
    if asked & {"published", "sent", "edited"}:
        from geolookup.cli.before import StateBefore  # late: most commands need none of it

        before = StateBefore(directory, asked)
        _facts.update(published=before.published, sent=before.sent, edited=before.edited)
        return before.current
    return None


def saying(name: str, fact: Callable[[], str]) -> None:
    """Note the function that says, at the moment of an interrupt, what became of something."""
    _facts[name] = fact


def writing_to(name: str) -> None:
    """Note that results go to this file, which is replaced once they are complete; ``-`` is standard output."""
    before = stamp_of(name)

    def target() -> str:
        if name == "-" or (os.path.exists(name) and not os.path.isfile(name)):
            return "what was written has no end"
        if stamp_of(name) != before:
            return f"{name} is complete"
        return f"{name} was not written" if before is None else f"{name} is as before"

    _facts["target"] = target


def changing(path: str) -> None:
    """Note that the command changes the settings in this file."""
    before = _content(path)
    _facts["settings"] = lambda: f"{path} is as before" if _content(path) == before else f"{path} was changed"


def _content(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None


def sentence(error: BaseException) -> str:
    """The message for a person whose Ctrl-C ended the command, or who reads its log after SIGTERM."""
    facts = dict(_NOTHING)
    for name in _asked() & set(_facts):
        # A second problem helps no one now; the command says it when it runs again.
        with contextlib.suppress(GeoLookupError, OSError):
            facts[name] = _facts[name]()
    after = f" after {_progress}" if _progress is not None and _progress.done else ""
    how = "ended by SIGTERM" if status(error) == exit_codes.TERMINATED else "interrupted"
    return f"{how}{after}: {SAID[_command].format_map(facts)}"
