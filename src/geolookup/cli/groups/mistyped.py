"""Names the command that a mistyped first word was meant to be, instead of "is not an IP address"."""

import difflib
import re
from collections.abc import Sequence

import click

_WORD = re.compile(r"[A-Za-z][A-Za-z_-]+")
#: What other tools call it.
_ELSEWHERE = {
    "help": "--help",
    "version": "--version",
    "update": "sync",
    "upgrade": "sync",
    "pull": "sync",
    "fetch": "sync",
    "download": "sync",
    "why": "explain",
    "info": "status",
    "search": "list",
    "settings": "config",
    "setup": "config init",
    "login": "config init",
    "rollback": "generations rollback",
    "undo": "custom undo",
}


def refuse(arguments: Sequence[str], commands: Sequence[str]) -> None:
    """Refuse a command line whose first argument is a word that was meant to be one of ``commands``.

    A word that is like none of them stands for a bad address if there are addresses, or a file of them, beside it.

    :raises click.UsageError: naming the command that was meant, or how to list them
    """
    word, *others = arguments
    if word in commands or not _WORD.fullmatch(word):
        return
    if (meant := _meant(word, commands) or _ELSEWHERE.get(word.lower())) is not None:
        raise click.UsageError(f"unknown command {word:.40}: did you mean `geolookup {meant}`?")
    if not any(other.startswith("-") or "." in other or ":" in other for other in others):
        raise click.UsageError(
            f"{word:.40} is neither a command nor an IP address: `geolookup --help` lists the commands"
        )


def unknown(word: str, commands: Sequence[str], path: str) -> click.UsageError:
    """What to say of a word that is none of the commands of the group ``path``."""
    meant = _meant(word, commands)
    advice = f"did you mean `{path} {meant}`?" if meant else f"there are {', '.join(commands)}"
    return click.UsageError(f"unknown command {word:.40}: {advice}")


def _meant(word: str, commands: Sequence[str]) -> str | None:
    plain = word.lower().replace("_", "-")
    if plain in commands:
        return plain
    begins = [name for name in commands if len(plain) > 2 and name.startswith(plain)]
    if len(begins) == 1:
        return begins[0]
    near = difflib.get_close_matches(plain, commands, n=1, cutoff=0.7)
    return near[0] if near else None
