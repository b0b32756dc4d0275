"""The test suites of other projects, run as they are but for their imports, on states in place of files."""

import os
import re
import sys
import types
import unittest
from collections.abc import Iterable, Mapping
from pathlib import Path

from geolookup.settings.source import SourceSettings
from geolookup.settings.table import Settings
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.pull.pull import pull

UPSTREAM = Path(__file__).parent / "upstream"
DATABASES = Path(__file__).parents[1] / "data" / "mmdb"


def loaded(suite: str, changes: Mapping[str, str], *, at: Path | None = None) -> types.ModuleType:
    """A module of tests, with ``changes`` made in its text: each part of it that is a key becomes the value.

    ``at`` is where it believes to be.
    """
    text = (UPSTREAM / suite).read_text(encoding="utf-8")
    path = at or UPSTREAM / suite
    for old, new in changes.items():
        assert old in text, f"{suite}: says nothing like {old!r}"
        text = text.replace(old, new)
    name = f"tests.compat.upstream.{suite.removesuffix('.py').replace('/', '.')}"
    module = types.ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module  # where `mock.patch` looks for it
    exec(compile(text, str(path), "exec"), module.__dict__)
    return module


def left_out(case: type[unittest.TestCase], reasons: Mapping[str, str]) -> type[unittest.TestCase]:
    """A class of tests, some of which are skipped, each with its reason."""
    for name, reason in reasons.items():
        setattr(case, name, unittest.skip(reason)(getattr(case, name)))
    return case


def named_in(suite: str) -> list[str]:
    """The databases that a suite names."""
    text = (UPSTREAM / suite).read_text(encoding="utf-8")
    return sorted(set(re.findall(r"[\w-]+\.mmdb", text)))


def synced(file: Path, home: Path, *, layer: str = "") -> None:
    """Make a state of a file."""
    source = SourceSettings(name="a", location=os.fspath(file), layer=layer)
    report = pull(StateDirectory(os.fspath(home)), Settings(sources=(source,), attempts=1))
    assert report.outcome == "published", report


def states(folder: Path, files: Iterable[Path]) -> None:
    """States in place of files, by their names."""
    folder.mkdir(parents=True)
    for file in files:
        # Records of no kind that is known are those of networks, kept by their own keys.
        synced(file, folder / file.name, layer="network" if file.name.startswith("MaxMind-DB") else "")
